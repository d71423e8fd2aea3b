"""Replicas in containers: which runtime there is, and the command that it is given.

A runtime is another program of the machine that is called by its command line: no library of it is
needed, and docker, podman and apptainer differ in a page of flags.
"""
