"""Commands that run the service and manage its machines, keys and files."""
