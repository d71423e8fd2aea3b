"""Shifts the time before what looks at it is imported: for a process that forks servers."""

import os

from e2e.stepped_time import shift

shift(os.environ["STEPPED_SECONDS"])

import trainshed.cli.admin.server  # noqa: E402, F401 - under the shifted time
