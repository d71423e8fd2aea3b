"""Composes the task of a warden: the first message that its launcher sends."""

from typing import Any

from trainshed.engines.supervise.record.spec import AttemptSpec, RemoteRule


def compose_task(spec: AttemptSpec, rule: RemoteRule, index: int, folder: str) -> dict[str, Any]:
    """Compose the task of the warden of a replica; ``folder`` is the attempt's folder."""
    marks = rule.marks[index]
    return {
        "uid": spec.uid,
        "attempt": spec.attempt,
        "task_name": spec.replicas[index].task_name,
        "grace_s": spec.grace_s,
        # empty: the warden cannot write there
        "folder": folder if rule.has_shared_folder else "",
        # whether the warden is the first process of its replica's container
        "in_container": rule.has_wardens and not rule.steps,
        "has_gpus": rule.has_gpus(index),
        "ports": [len(marks.ports), int(marks.rendezvous > 0)],
        "keeps": list(rule.keeps),
        "unset": list(rule.unset),
        "drops": list(rule.drops),
        "packages": rule.packages,
        "cache": rule.cache,
        "package_bytes_max": rule.package_bytes_max,
        "relax_pins": rule.relax_pins,
    }
