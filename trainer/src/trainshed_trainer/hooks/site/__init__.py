"""The launcher puts this folder on PYTHONPATH to load the hooks."""
