"""From the flags of a command line to the machine that a job runs on."""

import argparse
import os

from trainshed.service.local_run import Host
from trainshed.service.programs import interpreter
from trainshed.storage.buckets import GsPaths, buckets_of, cache_dir, data_dir


def host_of(args: argparse.Namespace, *, start_port: int | None = None) -> Host:
    """The machine as the command line and the environment describe it."""
    return Host(
        python=interpreter(args.python, os.environ),
        buckets=buckets_of(data_dir(args.data_dir, os.environ)),
        cache_dir=cache_dir(os.environ),
        gs_paths=GsPaths(args.gs_paths),
        start_port=start_port,
        project=args.project,
    )
