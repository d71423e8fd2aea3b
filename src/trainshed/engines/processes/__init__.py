"""Process trees, cgroups, identities, sockets and ports, as the operating system has them."""
