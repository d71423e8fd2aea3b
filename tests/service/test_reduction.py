"""How reducers are started beside a job of the service, and who knows the job's secret."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from service.submitting import DOCKER, MAPPED, Desk, custom_job, images, pool
from trainshed.config import ImageMapping, LocalEnvironment
from trainshed.engines.local.engine import LocalEngine
from trainshed.engines.several import Engines
from trainshed.files.server_files import write_first
from trainshed.model.faults import Fault
from trainshed.model.resources import FleetPolicy, Node, Seat
from trainshed.model.roles import Role
from trainshed.service.starts.interpreters import LIBRARY
from trainshed.service.starts.launching import Launching
from trainshed.storage.buckets import Buckets

SERVER = "us-docker.pkg.dev/vertex-ai-restricted/training/reductionserver:latest"
FILE = "TRAINSHED_REDUCTION_TOKEN_FILE"
#: Asked for by both, as Google asks for it.
T4 = {"acceleratorType": "NVIDIA_TESLA_T4", "acceleratorCount": 1}
OWN = "registry.example/me/own:1"


@pytest.fixture
def launch(store, tmp_path):
    return launching(store, tmp_path, images(*MAPPED))


def launching(store, folder, table):
    return Launching(
        store,
        Engines.from_engine(LocalEngine(folder / "jobs")),
        images=table,
        buckets=Buckets(root=folder / "buckets"),
        library=folder / LIBRARY,
    )


def reducers(count=2, env=(), **container):
    worker_pool = pool((), SERVER, count=count)
    worker_pool["containerSpec"] |= {"env": [{"name": n, "value": v} for n, v in env], **container}
    return worker_pool


def reduced(desk, third, *, image="REG/p/img:1"):
    return desk.custom(custom_job(pool(image=image, **T4), pool(image=image, **T4), third))


def replicas_of(plan, role):
    return [replica for replica in plan.replicas if replica.role is role]


def test_reducers_run_in_our_interpreter_and_listen_where_their_job_says(desk, launch):
    plan = launch(reduced(desk, reducers()), 1, [])
    assert [r.role for r in plan.replicas] == [
        *(Role.PRIMARY, Role.WORKER),
        *(Role.REDUCER, Role.REDUCER),
    ]
    for reducer in replicas_of(plan, Role.REDUCER):
        assert reducer.argv[:4] == (sys.executable, "-P", "-m", "trainshed.reduction")
        assert reducer.container is None
    cluster = json.loads(plan.primary.env["CLUSTER_SPEC"])["cluster"]
    assert ",".join(cluster["workerpool2"]) == plan.primary.env["TRAINSHED_REDUCERS"]
    places = [place for members in cluster.values() for place in members]
    assert len(set(places)) == 4


def test_the_processes_of_a_reducer_have_neighbouring_ports_that_nobody_else_has(desk, launch):
    record = reduced(desk, reducers(env=[("TRAINSHED_REDUCER_PROCS", "3")]))
    plan = launch(record, 1, [])
    cluster = json.loads(plan.primary.env["CLUSTER_SPEC"])["cluster"]
    ports = [int(place.rpartition(":")[2]) for place in cluster["workerpool2"]]
    listed = [
        int(place.rpartition(":")[2]) for place in plan.primary.env["TRAINSHED_REDUCERS"].split(",")
    ]
    assert listed == [port + proc for port in ports for proc in range(3)]
    pool_ports = [cluster[f"workerpool{n}"][0].rpartition(":")[2] for n in (0, 1)]
    all_ports = [*listed, *map(int, pool_ports), int(plan.primary.env["MASTER_PORT"])]
    assert len(set(all_ports)) == len(all_ports) == 9


def test_the_secret_is_a_private_file_of_the_attempt_and_nothing_else_has_it(desk, launch, store):
    record = reduced(desk, reducers())
    plan = launch(record, 1, [])
    (path,) = {replica.env[FILE] for replica in plan.replicas}
    secret = Path(path).read_text()
    assert len(bytes.fromhex(secret)) >= 32
    assert Path(path).stat().st_mode & 0o077 == 0
    assert Path(path).parent.parent.name == "1", "it lies in the folder of the attempt"
    assert secret not in repr(plan)
    stored = store.job_by_uid(record.uid)
    assert secret not in repr(stored)
    assert secret not in repr(store.notes(record.uid))


def test_an_attempt_that_is_planned_again_keeps_its_secret_and_the_next_has_another(desk, launch):
    record = reduced(desk, reducers())
    first, again, second = (launch(record, attempt, []) for attempt in (1, 1, 2))
    path, same, other = (Path(plan.primary.env[FILE]) for plan in (first, again, second))
    secret = path.read_text()
    assert path == same != other
    launch(record, 1, [])
    assert path.read_text() == secret != other.read_text()
    assert list(path.parent.iterdir()) == [path], "no drafts are left"


def test_a_job_that_cannot_be_composed_leaves_no_secret_library_or_folder(
    store, tmp_path, monkeypatch
):
    """Rules of variables may be stricter than when the job was submitted."""
    bare = LocalEnvironment(name="bare", python="/nowhere/bin/python3")
    table = images(
        ImageMapping(environment="bare", image="REG/*", entrypoint=("python", "-c", "pass")),
        environments=(bare,),
    )
    record = reduced(Desk(store, table), reducers())
    spec, notes = store.to_launch(record.uid)
    primary = spec.groups[0]
    program = replace(primary.program, env=(("NOT A NAME", "1"),))
    refused = replace(spec, groups=(replace(primary, program=program), *spec.groups[1:]))
    monkeypatch.setattr(store, "to_launch", lambda _uid: (refused, notes))
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(Fault, match="NOT A NAME"):
        launching(store, tmp_path, table)(record, 1, [])
    assert sorted(tmp_path.rglob("*")) == before


def test_a_job_without_reducers_has_no_secret(desk, launch):
    plan = launch(desk.custom(custom_job(pool(), pool())), 1, [])
    assert all(FILE not in replica.env for replica in plan.replicas)
    assert not Path(plan.cwd).with_name("progress").exists()


def test_containers_of_other_users_can_read_the_secret_and_their_folder_nobody_else(
    store, tmp_path
):
    table = images(*MAPPED, containers=DOCKER)
    plan = launching(store, tmp_path, table)(
        reduced(Desk(store, table), reducers(), image=OWN), 1, []
    )
    primary, _worker, *reducer_replicas = plan.replicas
    assert primary.container
    assert not any(reducer.container for reducer in reducer_replicas)
    path = Path(primary.env[FILE])
    assert path.stat().st_mode & 0o444 == 0o444
    assert path.parent.stat().st_mode & 0o077 == 0


def test_packages_are_not_installed_for_reducers_beside_containers(store, tmp_path):
    table = images(*MAPPED, containers=DOCKER)
    package = {
        "executorImageUri": OWN,
        "packageUris": ["gs://stage/demo-0.1.tar.gz"],
        "pythonModule": "demo.task",
    }
    (tmp_path / "buckets/stage").mkdir(parents=True)
    (tmp_path / "buckets/stage/demo-0.1.tar.gz").touch()
    first = pool(**T4)
    del first["containerSpec"]
    first["pythonPackageSpec"] = package
    record = Desk(store, table).custom(custom_job(first, dict(first), reducers()))
    plan = launching(store, tmp_path, table)(record, 1, [])
    assert plan.environment.packages == ()


def test_where_machines_are_reserved_exactly_a_reducer_has_its_machine_s_limits(desk, launch):
    exact = FleetPolicy.EXACT
    gpus = {"NVIDIA_TESLA_T4": 2}
    node = Node(name="n", vcpus=64, memory_gb=256, policy=exact, gpus=gpus)
    desk.store.see_nodes("local", [node])
    record = reduced(desk, reducers(count=1))
    seats = [Seat(role=role, index=0, node="n") for role in (Role.PRIMARY, Role.REDUCER)]
    (reducer,) = replicas_of(launch(record, 1, seats), Role.REDUCER)
    assert reducer.cpus_max == 4
    assert reducer.memory_bytes_max == 15 << 30


def test_what_a_reducer_runs_is_not_to_be_found_in_the_folder_of_the_job(desk, launch):
    """A job may have packages of any name."""
    plan = launch(reduced(desk, reducers(count=1)), 1, [])
    for name in ("trainshed", "numpy", "socket"):
        (Path(plan.cwd) / f"{name}.py").write_text("raise SystemExit('the job decides')")
    (reducer,) = replicas_of(plan, Role.REDUCER)
    process = subprocess.run(
        [*reducer.argv, "--help"], cwd=plan.cwd, capture_output=True, text=True, check=False
    )
    assert process.returncode == 0, process.stderr
    assert "trainshed-reducer" in process.stdout


def test_whoever_writes_a_secret_first_has_its_way(tmp_path):
    write_first(tmp_path / "x", b"one")
    write_first(tmp_path / "x", b"two")
    assert (tmp_path / "x").read_bytes() == b"one"
    assert list(tmp_path.iterdir()) == [tmp_path / "x"]
