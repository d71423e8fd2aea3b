"""Benchmarks of the planner: what it predicts beside what was measured."""
