"""Attempts on a Slurm cluster: one allocation each, whose first node runs a launcher.

The cluster's queue places.  Server and nodes share a folder, the spool, in which an attempt is what
it is everywhere: a folder with plan, records and log.  Slurm is spoken to by its commands alone.
"""
