"""Checks a data directory against the invariants (docs/invariants.md), without changing it.

``looking`` loads one snapshot of the database, the folders and the processes; the checks are pure
functions over it; ``examine`` repeats failed checks, because a server may be running.
"""
