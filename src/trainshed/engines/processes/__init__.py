"""What the operating system has for processes: trees, cgroups, identities, ports."""
