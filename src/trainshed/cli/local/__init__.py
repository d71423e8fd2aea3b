"""Verbs that run a job, or a program written for Google, from this machine."""
