"""Benchmarks of starts: a local run, a server, a job in each isolation mode."""
