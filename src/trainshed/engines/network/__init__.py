"""A network of its own for every attempt: namespaces, addresses, and the way to other networks."""
