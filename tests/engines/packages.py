"""Environments that are prepared by tests, which read them without keeping them."""

from trainshed.engines.environments import cache


def prepare(environment, **more):
    """What ``cache.prepare`` answers; the folder is free to be removed."""
    found = cache.prepare(environment, **more)
    if found.used is not None:
        found.used.close()
    return found
