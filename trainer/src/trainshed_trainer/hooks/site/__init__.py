"""The folder that is put on PYTHONPATH to switch the hooks on."""
