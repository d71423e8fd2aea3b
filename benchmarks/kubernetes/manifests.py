"""Measures the manifest of a large job: its time and its size."""

import json
import statistics
import time

from benchmarks.harness import Goal, at_most
from trainshed.engines.kubernetes import options
from trainshed.engines.kubernetes.manifest import compose_jobset
from trainshed.engines.kubernetes.options import PodScheduling
from trainshed.engines.kubernetes.request import ManifestRequest, RoleRequest
from trainshed.model.attempt import AttemptKey
from trainshed.model.resources import Demand
from trainshed.model.roles import Role

REPLICAS = 512
RUNTIME = "/trainshed/lib/runtime-0123456789abcdef"
START = (f"{RUNTIME}/ld.so", "--library-path", f"{RUNTIME}/lib", f"{RUNTIME}/bin/python3")


def measure_manifest(rounds: int) -> list[Goal]:
    """Compose the JobSet of a primary, workers and parameter servers."""
    request = _make_request()
    seconds = []
    for _ in range(rounds):
        began = time.perf_counter()
        text = json.dumps(compose_jobset(request), separators=(",", ":"))
        seconds.append(time.perf_counter() - began)
    what = f"manifest of {REPLICAS} replicas"
    return [
        at_most(what, statistics.median(seconds) * 1000, 20.0, "ms"),
        at_most(f"{what}, size", len(text) / 1000, 16.0, "kB"),
    ]


def _make_request() -> ManifestRequest:
    settings = options.read({"spool": "/srv/spool", "claim": "trainshed"})
    counts = {Role.PRIMARY: 1, Role.WORKER: REPLICAS - 5, Role.PARAMETER_SERVER: 4}
    roles, first = [], 0
    for role, count in counts.items():
        roles.append(
            RoleRequest(
                role=role,
                first=first,
                count=count,
                image="europe-docker.pkg.dev/project/repository/trainer:2026-01",
                demand=Demand(),
            )
        )
        first += count
    return ManifestRequest(
        key=AttemptKey(385518454417997665, 1),
        installation="0123abcd",
        job_id="385518454417997665",
        project="project",
        roles=tuple(roles),
        start=START,
        archive=f"{RUNTIME}/warden.pyz",
        options=settings,
        user=1000,
        group=1000,
        architecture="amd64",
        scheduling=PodScheduling(),
        buckets=("data", "models", "logs"),
    )
