"""The service's HTTP and gRPC interfaces: a table of routes over a chain of handlers."""
