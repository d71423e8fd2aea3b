"""Manifests of JobSets for the emulator's tests."""

OBEYS = 'trap "echo got TERM; exit 143" TERM; while :; do sleep 1 & wait $!; done'
STUBBORN = 'trap "" TERM; while :; do sleep 1; done'
GPU = "nvidia.com/gpu"


def job_role(name, script, *, count=1, gpus=0, **job):
    """A replicated Job of one Indexed Job; ``job`` are further fields of its spec."""
    container = {
        "name": "main",
        "image": "localhost/trainer:1",
        "command": ["/bin/sh", "-c", script],
    }
    if gpus:
        container["resources"] = {"limits": {GPU: str(gpus)}}
    variables = {
        "RESTART_ATTEMPT": "metadata.labels['jobset.sigs.k8s.io/restart-attempt']",
        "JOB_COMPLETION_INDEX": "metadata.annotations['batch.kubernetes.io/job-completion-index']",
    }
    container["env"] = [
        {"name": key, "valueFrom": {"fieldRef": {"fieldPath": path}}}
        for key, path in variables.items()
    ]
    pod = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 3, "containers": [container]}
    spec = {"parallelism": count, "completions": count, "backoffLimit": 0, **job}
    return {"name": name, "replicas": 1, "template": {"spec": {**spec, "template": {"spec": pod}}}}


def jobset(name, *roles, labels=None, max_restarts=0, rules=(), **spec):
    policy = {"maxRestarts": max_restarts, **({"rules": list(rules)} if rules else {})}
    body = {
        "replicatedJobs": list(roles),
        "successPolicy": {"operator": "All", "targetReplicatedJobs": [roles[0]["name"]]},
        "failurePolicy": policy,
        **spec,
    }
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": name, "namespace": "default", "labels": labels or {}},
        "spec": {key: value for key, value in body.items() if value is not None},
    }
