"""The peer: the JobSet that a user would write by hand, created with kubectl."""

import json
from collections.abc import Sequence
from typing import Any

from benchmarks.kubernetes.clusters import WAIT_S_MAX, Cluster

MAIN = "main"
OURS = "trainshed.dev/"
_SHARED = ("name", "image", "resources")
JOBSET_NAME = "jobset.sigs.k8s.io/jobset-name"


def plain_jobset(sent: str, name: str, argv: Sequence[str]) -> dict[str, Any]:
    """Return the JobSet that the engine sent, with the program alone in its pods.

    It has the same roles, images, requests and node selector, but no launcher, no warden and no
    volume, and no label of the server.
    """
    jobset = json.loads(sent)
    jobset["metadata"] = {"name": name}
    jobset["spec"].pop("successPolicy")  # wait for all replicas: their lines are read
    jobset["spec"]["network"].pop("subdomain")
    for role in jobset["spec"]["replicatedJobs"]:
        job = role["template"]
        job["metadata"] = _without_ours(job["metadata"])
        template = job["spec"]["template"]
        template["metadata"] = _without_ours(template["metadata"])
        pod = template["spec"]
        pod.pop("volumes", None)
        pod["containers"] = [
            _plain_container(row, argv) for row in pod["containers"] if row["name"] == MAIN
        ]
    return dict(jobset)


def _plain_container(row: dict[str, Any], argv: Sequence[str]) -> dict[str, Any]:
    shared: dict[str, Any] = {field: row[field] for field in _SHARED if field in row}
    return {**shared, "command": list(argv)}


def _without_ours(metadata: dict[str, Any]) -> dict[str, Any]:
    labels = metadata.get("labels", {})
    return {**metadata, "labels": {k: v for k, v in labels.items() if not k.startswith(OURS)}}


def create(at: Cluster, *jobsets: dict[str, Any]) -> None:
    """Create JobSets with one command, as a user does with a file."""
    at.kubectl("create", "-f", "-", text="\n---\n".join(map(json.dumps, jobsets)))


def await_lines(at: Cluster, name: str) -> list[str]:
    """Wait for the end of a JobSet; return the lines of its pods and delete it."""
    wait = f"--timeout={WAIT_S_MAX:g}s"
    at.kubectl("wait", "--for=condition=Completed", f"jobset/{name}", wait)
    words = ("--tail=-1", "--max-log-requests=64", "-c", MAIN)
    text = at.kubectl("logs", "-l", f"{JOBSET_NAME}={name}", *words)
    at.kubectl("delete", "jobset", name, "--wait=true")
    return text.splitlines()
