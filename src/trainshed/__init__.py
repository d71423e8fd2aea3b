"""Trainshed: a self-hosted training-job service that speaks Google's two training dialects."""

__version__ = "0.1.0"
