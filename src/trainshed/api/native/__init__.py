"""The native routes: our own API, one module for each group of routes."""
