"""A network of its own for every attempt: namespaces, their addresses and their way out."""
