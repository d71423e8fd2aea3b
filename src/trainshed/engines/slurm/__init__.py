"""Attempts on a Slurm cluster: one allocation each, whose first node runs a launcher.

The cluster's queue places attempts.  Server and nodes share a folder, the spool, in which each
attempt has a folder with its plan, records and log, as in every engine.  The server uses only
Slurm's commands, none of its libraries.
"""
