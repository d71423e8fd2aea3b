"""``trainshed`` with one thing about it altered that nobody can set: a program for tests.

    python altered_server.py ALTERATION serve --data-dir ...

- ``little-memory``: every replica has 64 MiB.  The smallest machine type that jobs may ask for has
  more memory than a test should take.
- ``tidies-often``: housekeeping comes every second instead of every minute.
- ``draws-alike``: every study has the same seed, which is else its number.
"""

import sys
from dataclasses import replace
from functools import partial

from trainshed.app import chores
from trainshed.cli.main import main
from trainshed.controller import studies
from trainshed.launch.site import MachineLimits
from trainshed.service.starts import launching

MEMORY_BYTES = 64 << 20


def give_little_memory():
    little = MachineLimits(memory_bytes_max=MEMORY_BYTES)
    launching.exact_limits = lambda _spec, nodes: dict.fromkeys(nodes, little)


def tidy_often():
    chores.Housekeeping = partial(chores.Housekeeping, every_s=1.0)


def draw_alike():
    context = studies.StudyContext
    studies.StudyContext = lambda **about: replace(context(**about), seed=1)


ALTERATIONS = {
    "little-memory": give_little_memory,
    "tidies-often": tidy_often,
    "draws-alike": draw_alike,
}


def altered(name):
    """The program of a server that is altered so."""
    return (__file__, name)


if __name__ == "__main__":
    ALTERATIONS[sys.argv.pop(1)]()
    sys.exit(main())
