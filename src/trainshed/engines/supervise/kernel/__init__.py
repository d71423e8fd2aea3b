"""Signals, processes, cgroups and limits, as the kernel has them."""
