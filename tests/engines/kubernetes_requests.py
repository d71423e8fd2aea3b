"""Requests for JobSets, as tests of manifests need them."""

from dataclasses import replace

from trainshed.engines.kubernetes import options
from trainshed.engines.kubernetes.gpus import GpuRow
from trainshed.engines.kubernetes.options import PodScheduling
from trainshed.engines.kubernetes.request import ManifestRequest, RoleRequest
from trainshed.model.attempt import AttemptKey
from trainshed.model.resources import Demand
from trainshed.model.roles import Role

KEY = AttemptKey(4611686018427387904, 2)
INSTALLATION = "abc"
NAME = "ts-abc-4611686018427387904-2"
T4 = "NVIDIA_TESLA_T4"
IMAGE = "europe-docker.pkg.dev/p/r/trainer@sha256:" + "0123456789abcdef" * 4
RUNTIME = "/trainshed/lib/runtime-0123456789abcdef"
PYTHON = f"{RUNTIME}/bin/python3"
START = (
    *(f"{RUNTIME}/ld.so", "--library-path", f"{RUNTIME}/lib"),
    *("--argv0", PYTHON, PYTHON, "-I", "-S"),
)
#: The machine types n1-standard-4 and n1-standard-8, as they are requested.
N1_STANDARD_4 = Demand(vcpus=4, memory_gb=15.0)
N1_STANDARD_8_T4 = Demand(vcpus=8, memory_gb=30.0, gpu_type=T4, gpu_count=2)
ROWS = {T4: GpuRow(selector={"nvidia.com/gpu.product": ("Tesla-T4",)})}


WITHOUT_QUEUE = PodScheduling()


def read_options(**settings):
    return options.read({"spool": "/srv/trainshed", "claim": "trainshed", **settings})


def list_role_requests(*groups, image=IMAGE):
    """Requests for (role, count, demand), with ranks in this order."""
    roles, first = [], 0
    for role, count, demand in groups:
        roles.append(RoleRequest(role=role, first=first, count=count, image=image, demand=demand))
        first += count
    return tuple(roles)


def make_request(*groups, settings=None, image=IMAGE, **more):
    """The request of an attempt; without groups, it has the primary alone."""
    groups = groups or ((Role.PRIMARY, 1, N1_STANDARD_4),)
    request = ManifestRequest(
        key=KEY,
        installation=INSTALLATION,
        roles=list_role_requests(*groups, image=image),
        start=START,
        archive="/trainshed/lib/warden-0123456789abcdef.pyz",
        options=read_options(**(settings or {})),
        user=1000,
        group=1000,
        architecture="amd64",
        scheduling=WITHOUT_QUEUE,
        job_id="training_1",
        project="demo-proj",
        gpus=ROWS,
    )
    return replace(request, **more)


def find_pod(jobset, role="primary"):
    """The spec of the pods of a role."""
    jobs = {job["name"]: job["template"]["spec"] for job in jobset["spec"]["replicatedJobs"]}
    return jobs[role]["template"]["spec"]


def find_container(jobset, name="main", role="primary"):
    pod = find_pod(jobset, role)
    return {container["name"]: container for container in pod["containers"]}[name]
