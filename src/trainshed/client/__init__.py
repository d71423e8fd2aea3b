"""A typed client of our own API, on the standard library; the command line uses it."""
