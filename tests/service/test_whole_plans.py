"""The whole launch plan of an attempt, as the server and a local run compose it.

``tests/golden/plans`` has one file for each job; what differs between two runs has a name there.
"""

import json
import re
import sys
from dataclasses import asdict, replace
from enum import Enum
from pathlib import Path

import pytest

from golden import check_golden
from launch.builders import STUDY, TRIAL, container, ml_spec, vertex_spec
from service.submitting import DOCKER, Desk, custom_job, images, ml_job, pool
from trainshed.config import ImageMapping, LocalEnvironment
from trainshed.engines.container_runtime import NONE
from trainshed.engines.local.engine import LocalEngine
from trainshed.engines.local.options import LocalOptions
from trainshed.engines.network import addresses
from trainshed.engines.network.choose import JobNetwork
from trainshed.engines.several import Engines
from trainshed.model.gateway import GatewaySight
from trainshed.model.resources import FleetPolicy, Node, Seat
from trainshed.model.roles import Role
from trainshed.service.gateway.places import GatewayPlace
from trainshed.service.starts.interpreters import LIBRARY
from trainshed.service.starts.launching import Launching
from trainshed.service.starts.programs import Source
from trainshed.storage.buckets import Buckets, GsPaths
from trainshed.workbench.local_run import Host, LocalJob, prepare
from trainshed.workbench.plain_train import PlainJob, plain_spec

GOLDEN = Path(__file__).parents[1] / "golden" / "plans"
#: An interpreter that does not answer and so lacks the trainer library.
BARE = "/nowhere/bin/python3"
BARE_IMAGE = "REG/p/bare:1"
TABLE = (
    ImageMapping(environment="bare", image=BARE_IMAGE),
    ImageMapping(environment="default", image="*", entrypoint=("python", "-c", "pass")),
)
REDUCTION_SERVER = "us-docker.pkg.dev/vertex-ai-restricted/training/reductionserver:latest"
OUTPUT = {"baseOutputDirectory": {"outputUriPrefix": "gs://out/a"}}
HERE = Node(name="here", engine="local", gpus={"NVIDIA_TESLA_T4": 4})

SEAT = Seat(role=Role.PRIMARY, index=0, node="here")


def with_env(document, *variables):
    document["containerSpec"]["env"] = list(variables)
    return document


GPUS = {"acceleratorType": "NVIDIA_TESLA_T4", "acceleratorCount": 1}

#: The document of each job, and how its server differs from a plain one.
JOBS = {
    "one-replica": (custom_job(pool()), {}),
    "results": (custom_job(pool(), pool(count=2), **OUTPUT), {"attempt": 2}),
    "module": (
        ml_job(
            "module", jobDir="gs://out/j", args=["--x", "gs://out/data"], scaleTier="STANDARD_1"
        ),
        {},
    ),
    "steps": (custom_job(pool(image=BARE_IMAGE)) | {"labels": {"trainshed-plan": "measure"}}, {}),
    "two-interpreters": (
        custom_job(
            pool(), with_env(pool(image=BARE_IMAGE), {"name": "PYTHONPATH", "value": "/mine"})
        ),
        {},
    ),
    "containers": (custom_job(pool(), pool(), **OUTPUT), {"contained": True}),
    "reducers": (
        custom_job(pool(**GPUS), pool(**GPUS), pool(image=REDUCTION_SERVER, count=2)),
        {"networks": True},
    ),
    "gateway": (custom_job(pool(), pool(), **OUTPUT), {"networks": True, "gateway": True}),
    "emulated": (custom_job(pool(**GPUS)), {"policy": FleetPolicy.EMULATE}),
    "exact": (custom_job(pool(**GPUS)), {"policy": FleetPolicy.EXACT}),
    "trial": (ml_job("trial", jobDir="gs://out/t"), {"trial": True}),
}


@pytest.mark.parametrize("name", JOBS)
def test_the_server_composes_the_plan(name, store, tmp_path, monkeypatch):
    monkeypatch.setattr(addresses, "free_runs", list_ports)
    document, setting = JOBS[name]
    containers = {"containers": DOCKER} if setting.get("contained") else {}
    bare = LocalEnvironment(name="bare", python=BARE)
    table = images(*(() if containers else TABLE), environments=(bare,), **containers)
    desk = Desk(store, table=table)
    record = desk.ml(document) if "jobId" in document else desk.custom(document)
    if setting.get("trial"):
        spec, notes = store.to_launch(record.uid)
        trial_spec = replace(spec, study=STUDY, trial=TRIAL)
        monkeypatch.setattr(store, "to_launch", lambda _uid: (trial_spec, notes))
    policy = setting.get("policy", FleetPolicy.BEST_EFFORT)
    monkeypatch.setattr(store, "fleet", lambda: [replace(HERE, policy=policy)])
    launch = launching(store, tmp_path, table, setting)
    plan = launch(record, setting.get("attempt", 1), [SEAT])
    _, number = store.project(record.job.project)
    names = {number: "NUMBER", record.job.job_id: "JOB", str(record.uid): "UID"}
    check_golden(GOLDEN / "server" / f"{name}.json", text_of(asdict(plan), tmp_path, names))


def launching(store, folder, table, setting):
    place = GatewayPlace("127.0.0.1", 4443, None, folder / "gateway/bundle.pem")
    return Launching(
        store,
        Engines.from_engine(
            LocalEngine(
                folder / "jobs",
                LocalOptions(
                    containers=DOCKER if setting.get("contained") else NONE,
                    network=JobNetwork(is_own=setting.get("networks", False)),
                ),
            )
        ),
        images=table,
        buckets=Buckets(root=folder / "buckets"),
        library=folder / LIBRARY,
        environ={"PATH": "/usr/bin"},
        open_gateway=(lambda: place) if setting.get("gateway") else lambda: None,
        server_ports=lambda: (8470,),
    )


def list_ports(widths, _start):
    """Ports of the loopback that are the same in every run."""
    return tuple(15000 + sum(widths[:place]) for place in range(len(widths)))


#: Each local job: its spec, and the machine.
LOCAL_JOBS = {
    "plain": lambda: (
        {"spec": plain_spec(PlainJob(module="trainer.task", args=("--x", "1")))},
        {},
    ),
    "workers": lambda: ({"spec": ml_spec(SHAPES), "entry_point": ("python", "-m", "task")}, {}),
    "containers": lambda: (
        {"spec": vertex_spec(SHAPES)},
        {"runtime": DOCKER.runtime, "policy": FleetPolicy.EXACT},
    ),
    "network": lambda: (
        {"spec": vertex_spec(SHAPES), "any_gpu_count": 1, "env": {"X": "mine"}},
        {"has_network": True},
    ),
    "reducers": lambda: ({"spec": vertex_spec({**SHAPES, Role.REDUCER: 2})}, {}),
    "reducers-bare": lambda: (
        {"spec": vertex_spec({**SHAPES, Role.REDUCER: 2})},
        {"python": BARE},
    ),
    "python3": lambda: ({"spec": vertex_spec(ONE, container(command=("python3", "-u")))}, {}),
    "no-command": lambda: (
        {"spec": vertex_spec(ONE, container(command=(), args=("--x", "1")))},
        {"runtime": DOCKER.runtime},
    ),
    "measured": lambda: (
        {"spec": replace(vertex_spec(ONE, container()), labels={"trainshed-plan": "measure"})},
        {"runtime": DOCKER.runtime},
    ),
    "gateway": lambda: (
        {"spec": vertex_spec(SHAPES)},
        {"gs_paths": GsPaths.URI, "gateway": GATEWAY},
    ),
}
SHAPES = {Role.PRIMARY: 1, Role.WORKER: 2}
ONE = {Role.PRIMARY: 1}
GATEWAY = GatewaySight(address="127.0.0.1:4443", folder="/srv/gateway")


@pytest.mark.parametrize("name", LOCAL_JOBS)
def test_a_local_run_composes_the_plan(name, tmp_path, monkeypatch):
    monkeypatch.setattr(addresses, "free_runs", list_ports)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    job, machine = LOCAL_JOBS[name]()
    path = tmp_path / "buckets/bkt/pkg/trainer-0.1.tar.gz"
    path.parent.mkdir(parents=True)
    path.touch()
    machine = {"python": sys.executable, **machine}
    host = Host(buckets=Buckets(root=tmp_path / "buckets"), **machine)
    job = LocalJob(
        job_id="digits",
        source=Source(folder=tmp_path),
        folder=tmp_path,
        say=lambda _field: "FIELD",
        **job,
    )
    prepared = prepare(job, host)
    value = {**asdict(prepared.plan), "output": prepared.output, "folders": prepared.folders}
    check_golden(GOLDEN / "local" / f"{name}.json", text_of(value, tmp_path, {}))


def test_preparing_a_local_run_makes_no_folder(tmp_path):
    host = Host(python=BARE, buckets=Buckets(root=tmp_path / "data/buckets"))
    job = LocalJob(
        spec=vertex_spec({**SHAPES, Role.REDUCER: 1}, container()),
        job_id="digits",
        source=Source(folder=tmp_path),
        folder=tmp_path,
        say=lambda _field: "FIELD",
    )
    plan = prepare(job, host).plan
    assert plan.primary.env["PYTHONPATH"].endswith(str(tmp_path / "data" / LIBRARY))
    assert list(tmp_path.iterdir()) == []


def text_of(plan, folder, names):
    """The plan as JSON, with names in the place of what differs between two runs."""
    text = json.dumps(plan, indent=1, default=readable)
    text = re.sub(r'(cloud\\": \\")[0-9a-f]+-ml', r"\1NUMBER-ml", text)
    text = re.sub(r'(environment default: )[^"]*', r"\1INSTALLED", text)
    text = re.sub(r"(cmle-training-[a-z0-9]+)-[0-9a-f]+-", r"\1-NUMBER-", text)
    for value, name in {str(folder): "FOLDER", sys.executable: "PYTHON", **names}.items():
        text = text.replace(value, name)
    return text.replace(str(Path(sys.executable).parent), "PYTHON_FOLDER") + "\n"


def readable(value):
    if isinstance(value, Path):
        return str(value)
    return value.value if isinstance(value, Enum) else dict(value)
