"""Whether a data directory keeps the promises (docs/invariants.md): looked at, never touched.

``looking`` loads one snapshot of the database, the folders and the processes; the checks are pure
functions over it; ``examine`` looks again at what seems broken, since a server may be at work.
"""
