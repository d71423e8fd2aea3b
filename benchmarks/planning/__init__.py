"""Benchmarks of the planner: predictions beside measurements."""
