"""A training package: a small network on handwritten digits, with arguments that can be tuned."""
