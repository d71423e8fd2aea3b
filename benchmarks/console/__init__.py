"""Benchmarks of the console's pages in a real browser."""
