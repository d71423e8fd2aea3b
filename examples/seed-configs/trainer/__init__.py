"""A training package that trains nothing: every replica says who it is, and the primary asks."""
