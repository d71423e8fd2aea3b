"""Dataclasses of the store's rows, one module per kind of row."""
