"""What the store keeps, as values: one module a kind of row."""
