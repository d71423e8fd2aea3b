"""A training package: one model over two processes, and over four."""
