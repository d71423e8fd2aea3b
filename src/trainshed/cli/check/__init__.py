"""Verbs that check a job, the catalog or this machine, and change nothing."""
