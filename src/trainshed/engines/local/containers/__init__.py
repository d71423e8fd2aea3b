"""Replicas in containers: finds a container runtime and composes its commands.

A runtime is a program of the machine, which is called by its command line.  So Trainshed needs no
library of it, and docker, podman and apptainer differ only in some flags.
"""
