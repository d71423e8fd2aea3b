"""Verbs that run the service and look after its machines, keys and files."""
