"""Benchmarks of the server: submits, reads, logs, storage, recovery."""
