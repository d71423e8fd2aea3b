"""Environments that are prepared by tests, which read them without keeping them."""

from trainshed.engines.environments import cache


def prepare(environment, **more):
    """What ``cache.prepare`` answers; the folder is free to be removed."""
    job_python = cache.prepare(environment, **more)
    if job_python.used is not None:
        job_python.used.close()
    return job_python
