"""Calls of the kernel for the supervisor: signals, processes, cgroups and limits."""
