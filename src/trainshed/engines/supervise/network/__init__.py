"""The network of an attempt while its supervisor lives."""
