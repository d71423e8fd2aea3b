"""The service on the wire: a table of routes over a chain of handlers."""
