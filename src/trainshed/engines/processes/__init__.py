"""Reads and changes processes, cgroups, sockets and ports of this machine's operating system."""
