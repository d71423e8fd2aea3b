"""Trainshed: a self-hosted training-job service that speaks Google's two training dialects."""

# The one place: setup.py reads it, and the trainer library's version.py is a link to this file.
__version__ = "0.1.0"
