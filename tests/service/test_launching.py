"""From a stored job to a launch plan of this machine, and its real run by the local engine."""

import json
import os
import sys
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

from engines.support import Recorder, run
from launch.builders import STUDY, TRIAL
from service.submitting import DOCKER, MAPPED, Desk, custom_job, images, ml_job, pool
from trainshed.config import ImageMapping, LocalEnvironment
from trainshed.engines.isolation.compose import Isolation
from trainshed.engines.local import engine
from trainshed.engines.local.engine import LocalEngine
from trainshed.engines.local.options import LocalOptions
from trainshed.engines.several import Engines
from trainshed.model.faults import EngineFault
from trainshed.model.launch_plan import ContainerPlan
from trainshed.model.resources import FleetPolicy, Node, Seat
from trainshed.model.roles import Role
from trainshed.service.gateway.places import GatewayPlace
from trainshed.service.starts.interpreters import LIBRARY
from trainshed.service.starts.launching import Launching
from trainshed.storage.buckets import Buckets, GsPaths

PREBUILT = "us-docker.pkg.dev/vertex-ai/training/pytorch-gpu.1-13.py310:latest"


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


def test_the_server_makes_no_folder_that_a_cluster_makes(desk, store, tmp_path):
    class Cluster(LocalEngine):
        def sight(self, *arguments):
            return replace(super().sight(*arguments), work=str(tmp_path / "pod" / "work"))

    cluster = Cluster(tmp_path / "jobs")
    cluster.traits = replace(cluster.traits, has_own_work_folders=True)
    launch = Launching(
        store,
        Engines.from_engine(cluster),
        images=images(*MAPPED),
        buckets=Buckets(root=tmp_path / "buckets"),
        library=tmp_path / LIBRARY,
    )
    plan = launch(desk.custom(custom_job(pool())), 1, [])
    assert plan.cwd == str(tmp_path / "pod" / "work")
    assert not (tmp_path / "pod").exists()


def test_a_plan_has_ports_of_its_own_a_folder_and_the_project_s_two_names(desk, launch, tmp_path):
    record = desk.custom(custom_job(pool(), pool(count=2)))
    plan = launch(record, 2, [])
    assert (plan.job_id, plan.attempt) == (record.job.job_id, 2)
    assert plan.cwd == str(tmp_path / f"jobs/{record.uid}/2/work")
    assert Path(plan.cwd).is_dir()
    assert [r.task_name for r in plan.replicas] == [
        "workerpool0-0",
        "workerpool1-0",
        "workerpool1-1",
    ]
    cluster = json.loads(plan.primary.env["CLUSTER_SPEC"])["cluster"]
    addresses = [address for pool in cluster.values() for address in pool]
    assert len(set(addresses)) == 3
    assert all(address.startswith("127.0.0.1:") for address in addresses)
    number = desk.store.project("demo")[1]
    assert plan.primary.env["CLOUD_ML_PROJECT_ID"] == number
    assert plan.environment.python == sys.executable
    assert plan.primary.argv[0] == "python"
    again = launch(record, 3, [])
    assert again.cwd != plan.cwd


class EngineWithoutNetworks(LocalEngine):
    """As engines were made before jobs had networks of their own."""

    def sight(self, key, shape):
        return super().sight(key, shape)


def test_an_engine_that_gives_no_networks_is_asked_for_none(desk, store, tmp_path):
    launch = Launching(
        store,
        Engines.from_engine(EngineWithoutNetworks(tmp_path / "jobs")),
        images=images(*MAPPED),
        buckets=Buckets(root=tmp_path / "buckets"),
        library=tmp_path / LIBRARY,
    )
    assert launch(desk.custom(custom_job(pool(), pool(count=2))), 1, []).network is None


def test_the_notes_of_the_job_head_its_log_once(desk, launch):
    record = desk.custom(custom_job(pool(image=PREBUILT)))
    plan = launch(record, 1, [])
    assert plan.notes[0].startswith("Asked for PyTorch 1.13 on Python 3.10")
    assert len(set(plan.notes)) == len(plan.notes)


def test_output_folders_are_there_before_the_program_is(desk, launch, tmp_path):
    base = {"baseOutputDirectory": {"outputUriPrefix": "gs://out/a:b"}}
    plan = launch(desk.custom(custom_job(**base)), 1, [])
    folder = tmp_path / "buckets/out/a:b"
    assert plan.primary.env["AIP_MODEL_DIR"] == f"{folder}/model/"
    assert all((folder / name).is_dir() for name in ("model", "checkpoints", "logs"))
    plan = launch(desk.ml(ml_job(jobDir="gs://out/j", args=["--x", "gs://out/data"])), 1, [])
    folder = tmp_path / "buckets/out/j"
    assert plan.primary.argv[-4:] == ("--x", "gs://out/data", "--job-dir", str(folder))
    assert folder.is_dir()


def test_basic_tpu_is_one_master_with_one_place(desk, launch):
    """Also in what is placed: a TPU node would have a place that no program uses."""
    record = desk.ml(ml_job(scaleTier="BASIC_TPU", masterType=None, region="us-central1"))
    demand = desk.store.demand(record.uid)
    assert [group.role for group in demand.groups] == [Role.PRIMARY]
    plan = launch(record, 1, [])
    assert [replica.task_name for replica in plan.replicas] == ["master-replica-0"]
    assert any("cloud_tpu is not started" in note for note in plan.notes)


def test_a_missing_package_is_told_by_name(desk, launch):
    record = desk.ml(ml_job(packageUris=["gs://stage/p.tar.gz"]))
    with pytest.raises(EngineFault, match=r"the package gs://stage/p\.tar\.gz does not exist"):
        launch(record, 1, [])


def test_nothing_is_made_for_a_job_whose_package_is_refused(desk, launch, tmp_path):
    (tmp_path / "buckets/stage").mkdir(parents=True)
    (tmp_path / "buckets/stage/p.tar.gz").symlink_to("/etc/hostname")
    record = desk.ml(ml_job(packageUris=["gs://stage/p.tar.gz"], jobDir="gs://stage/j"))
    with pytest.raises(EngineFault, match=r"the package gs://stage/p\.tar\.gz is behind a link"):
        launch(record, 1, [])
    assert [path.name for path in (tmp_path / "buckets/stage").iterdir()] == ["p.tar.gz"]
    assert not (tmp_path / "jobs").exists()


def test_a_mapping_that_has_gone_since_is_told(desk, store, tmp_path):
    record = desk.custom(custom_job())
    with pytest.raises(EngineFault, match=r"\[\[image\]\]"):
        launching(store, tmp_path, images())(record, 1, [])


def test_mount_paths_become_folders_at_the_start_of_words_only(desk, launch, tmp_path):
    command = ["sh", "-c", "cp /gcs/stage/a.tar.gz /x/gcs/stage/b --to='/gcs/stage' /gcsx /gcs/A!"]
    container = pool(command)
    container["containerSpec"]["args"] = ["--data=/gcs/my.data/x", "/gcs"]
    container["containerSpec"]["env"] = [{"name": "DATA", "value": "/gcs/stage"}]
    plan = launch(desk.custom(custom_job(container)), 1, [])
    root = tmp_path / "buckets"
    expected = f"cp {root}/stage/a.tar.gz /x/gcs/stage/b --to='{root}/stage' /gcsx /gcs/A!"
    assert plan.primary.argv == ("sh", "-c", expected, f"--data={root}/my.data/x", "/gcs")
    assert plan.primary.env["DATA"] == f"{root}/stage"
    assert f"/gcs/stage became {root}/stage." in "\n".join(plan.notes)
    pools = json.loads(plan.primary.env["CLUSTER_SPEC"])["job"]["workerPoolSpecs"]
    assert pools[0]["containerSpec"]["command"] == command


def test_a_pool_runs_in_its_own_image_s_environment(store, tmp_path):
    other = LocalEnvironment(name="other", python="/other/bin/python3")
    table = images(
        ImageMapping(environment="default", image="REG/*"),
        ImageMapping(environment="other", image="OTHER/*"),
        environments=(other,),
    )
    record = Desk(store, table).custom(custom_job(pool(), pool(image="OTHER/x")))
    primary, worker = launching(store, tmp_path, table)(record, 1, []).replicas
    assert (primary.argv[0], worker.argv[0]) == ("python", "/other/bin/python3")
    assert primary.env["PATH"].split(os.pathsep)[0] == str(Path(sys.executable).parent)
    assert worker.env["PATH"].split(os.pathsep)[0] == "/other/bin"


T4 = {"acceleratorType": "NVIDIA_TESLA_T4", "acceleratorCount": 2}


def placed(desk, launch, policy):
    """The plan of a job that asked for T4 on a node that has none of them."""
    aliases = {"NVIDIA_TESLA_T4": "any"}
    node = Node(name="n", gpus={"NVIDIA_H100_80GB": 8}, gpu_alias=aliases, policy=policy)
    desk.store.see_nodes("local", [node])
    record = desk.custom(custom_job(pool(**T4)))
    return launch(record, 1, [Seat(role=Role.PRIMARY, index=0, node="n")])


def test_a_node_that_emulates_gives_no_devices_and_says_so(desk, launch):
    plan = placed(desk, launch, FleetPolicy.EMULATE)
    assert plan.primary.gpu_count == 0
    assert "asked for 2 NVIDIA_TESLA_T4 run without GPUs, on the CPU" in "\n".join(plan.warnings)


def test_devices_of_another_type_are_told(desk, launch):
    plan = placed(desk, launch, FleetPolicy.BEST_EFFORT)
    assert plan.primary.gpu_count == 2
    assert "gives any GPUs in the place of NVIDIA_TESLA_T4" in "\n".join(plan.notes)


def test_names_of_google_s_and_of_the_log_are_those_of_every_replica(desk, launch):
    plan = launch(desk.custom(custom_job(pool(), pool(count=2))), 1, [])
    names = [name for address, name in plan.hosts if address == "127.0.0.1"]
    assert len(names) == len(plan.hosts) == 6
    assert {replica.task_name for replica in plan.replicas} <= set(names)
    short = names[0].split("-")[3]
    assert f"cmle-training-workerpool1-{short}-1" in names
    assert "cmle-training" not in plan.primary.env["TF_CONFIG"]


def test_a_job_sees_the_buckets_of_its_project_that_are_there_and_no_others(desk, launch, tmp_path):
    root = tmp_path / "buckets"
    for name in ("stage", "yours", "nobodys"):
        (root / name).mkdir(parents=True)
    desk.store.add_bucket("yours", "other")
    script = "cat /gcs/stage/x /gcs/yours/x /gcs/nobodys/x /gcs/nowhere/x"
    plan = launch(desk.custom(custom_job(pool(["sh", "-c", script]))), 1, [])
    assert plan.binds == ((str(root / "stage"), "/gcs/stage"),)
    expected = script.replace("/gcs/stage", str(root / "stage"))
    assert plan.primary.argv[-1] == expected  # what is not the project's stays as it was written
    notes = "\n".join(plan.notes)
    for name in ("yours", "nobodys", "nowhere"):
        assert f"does not exist: the project has no bucket {name}." in notes


def test_a_later_attempt_knows_where_checkpoints_may_lie(desk, launch, tmp_path):
    base = {"baseOutputDirectory": {"outputUriPrefix": "gs://out/a"}}
    record = desk.custom(custom_job(**base))
    assert launch(record, 1, []).checkpoints == ()
    again = launch(record, 2, [])
    assert again.checkpoints[-1] == f"{tmp_path}/buckets/out/a/checkpoints"
    assert again.primary.env["AIP_CHECKPOINT_DIR"] == f"{again.checkpoints[-1]}/"
    record = desk.ml(ml_job(jobDir="gs://out/j"))
    assert launch(record, 2, []).checkpoints[-1] == f"{tmp_path}/buckets/out/j"


def test_checkpoints_in_the_folder_of_an_earlier_attempt_are_missed(desk, launch):
    record = desk.custom(custom_job(name="told no place"))
    starts = [launch(record, attempt, []).cwd for attempt in (1, 2)]
    assert launch(record, 3, []).checkpoints == tuple(f"{cwd}/checkpoints" for cwd in starts)


@pytest.mark.parametrize(
    ("policy", "memory", "cpus"),
    [(FleetPolicy.EXACT, 15 << 30, 4.0), (FleetPolicy.BEST_EFFORT, None, None)],
)
def test_only_where_a_machine_is_reserved_exactly_are_its_limits_kept(
    desk, launch, policy, memory, cpus
):
    desk.store.see_nodes("local", [Node(name="n", vcpus=64, memory_gb=256, policy=policy)])
    record = desk.custom(custom_job(pool()))  # n1-standard-4
    plan = launch(record, 1, [Seat(role=Role.PRIMARY, index=0, node="n")])
    assert (plan.primary.memory_bytes_max, plan.primary.cpus_max) == (memory, cpus)


OWN = "registry.example/me/own:1"


@pytest.fixture
def with_docker(store, tmp_path):
    table = images(*MAPPED, containers=DOCKER)
    return Desk(store, table), launching(store, tmp_path, table)


def test_a_container_keeps_its_words_and_gets_nothing_of_the_machine_s(with_docker, tmp_path):
    desk, launch = with_docker
    (tmp_path / "buckets/stage").mkdir(parents=True)
    container = pool(["python3", "/app/train.py"], OWN)
    container["containerSpec"] |= {
        "args": ["--data=/gcs/stage/x"],
        "env": [{"name": "DATA", "value": "/gcs/stage"}],
    }
    plan = launch(desk.custom(custom_job(container)), 1, [])
    assert plan.primary.container == ContainerPlan(
        image=OWN, command=("python3", "/app/train.py"), args=("--data=/gcs/stage/x",)
    )
    assert plan.primary.env["DATA"] == "/gcs/stage"
    assert "PATH" not in plan.primary.env
    assert plan.binds == ((str(tmp_path / "buckets/stage"), "/gcs/stage"),)
    assert not any("became" in note for note in plan.notes)


@pytest.mark.parametrize(("image", "is_told"), [(OWN, True), ("REG/x", False)])
def test_a_container_whose_steps_hooks_should_see_is_told_that_none_do(with_docker, image, is_told):
    desk, launch = with_docker
    measured = {**custom_job(pool(["python3"], image)), "labels": {"trainshed-plan": "measure"}}
    plan = launch(desk.custom(measured), 1, [])
    assert plan.primary.env["TRAINSHED_STEPS"] == "hooks"
    assert any("Hooks cannot measure the steps" in note for note in plan.notes) is is_told


def test_only_processes_whose_env_asks_for_hooks_get_the_library_of_the_hooks(
    with_docker, tmp_path
):
    """Hooks do not reach a container, so a container that asks for them needs no library."""
    desk, launch = with_docker
    container = pool(["python3"], OWN)
    container["containerSpec"]["env"] = [{"name": "TRAINSHED_STEPS", "value": "hooks"}]
    launch(desk.custom(custom_job(pool(), container)), 1, [])
    assert not (tmp_path / LIBRARY).exists()
    process = pool()
    process["containerSpec"]["env"] = container["containerSpec"]["env"]
    plan = launch(desk.custom(custom_job(process, pool())), 1, [])
    primary, worker = plan.replicas
    assert primary.env["PYTHONPATH"] == f"{tmp_path}/{LIBRARY}/trainshed_trainer/hooks/site"
    assert "PYTHONPATH" not in worker.env
    assert (tmp_path / LIBRARY).is_dir()


def test_pools_may_be_processes_and_containers_side_by_side(with_docker, tmp_path):
    desk, launch = with_docker
    words = ["sh", "-c", "cat /gcs/stage/x"]
    plan = launch(desk.custom(custom_job(pool(words), pool(words, OWN))), 1, [])
    primary, worker = plan.replicas
    assert primary.container is None
    assert primary.argv[-1] == f"cat {tmp_path}/buckets/stage/x"
    assert worker.container.command == ("sh", "-c", "cat /gcs/stage/x")


def test_packages_of_an_executor_image_are_installed_inside_and_only_there(with_docker, tmp_path):
    desk, launch = with_docker
    uri = sdist(tmp_path, "demo-0.1.tar.gz")
    spec = {"executorImageUri": OWN, "packageUris": [uri], "pythonModule": "demo.task"}
    machine = {"machineSpec": {"machineType": "n1-standard-4"}, "replicaCount": 1}
    plan = launch(desk.custom(custom_job({**machine, "pythonPackageSpec": spec})), 1, [])
    assert plan.environment.packages == ()
    file = f"{tmp_path}/buckets/stage/demo-0.1.tar.gz"
    assert file in plan.primary.container.command[2]
    assert plan.primary.container.command[-1] == "demo.task"
    assert (str(tmp_path / "buckets/stage"), "/gcs/stage") in plan.binds


def test_a_runtime_that_has_gone_since_is_told(with_docker, store, tmp_path):
    record = with_docker[0].custom(custom_job(pool(image=OWN)))
    with pytest.raises(EngineFault, match="its daemon does not answer"):
        launching(store, tmp_path, images(*MAPPED))(record, 1, [])


def sdist(folder, name):
    """A package as from_local_script uploads it, with colons in its name.

    The source is docs/sources/vertex.md 4.3.
    """
    top = folder / "src/demo-0.1"
    (top / "demo").mkdir(parents=True)
    (top / "demo/__init__.py").write_text("")
    code = "import os, sys; open(sys.argv[-1] + '/done', 'w').write(os.getcwd()); print('trained')"
    (top / "demo/task.py").write_text(code)
    (top / "setup.py").write_text(
        "from setuptools import setup; setup(name='demo', version='0.1', packages=['demo'])"
    )
    target = folder / "buckets/stage" / name
    target.parent.mkdir(parents=True)
    with tarfile.open(target, "w:gz") as archive:
        archive.add(top, "demo-0.1")
    return f"gs://stage/{name}"


def test_an_uploaded_package_runs_to_its_end_in_its_own_folder(desk, launch, tmp_path):
    uri = sdist(tmp_path, "aiplatform-2026-11-20-23:53:43.612-demo-0.1.tar.gz")
    document = ml_job(packageUris=[uri], pythonModule="demo.task", jobDir="gs://out/j")
    record = desk.ml(document)
    plan = launch(record, 1, [])
    recorder = Recorder()
    outcome = run(plan, recorder, cache_dir=str(tmp_path / "cache"))
    assert outcome.exit_code == 0, outcome.message
    assert recorder.texts("master-replica-0") == ["trained"]
    assert (tmp_path / "buckets/out/j/done").read_text() == plan.cwd


def test_a_shell_command_finds_the_environment_s_programs_and_the_buckets(desk, launch, tmp_path):
    (tmp_path / "buckets/stage").mkdir(parents=True)
    (tmp_path / "buckets/stage/text").write_text("from the bucket")
    script = "cat /gcs/stage/text && echo && python -c 'import sys; print(sys.executable)'"
    plan = launch(desk.custom(custom_job(pool(["sh", "-c", script]))), 1, [])
    recorder = Recorder()
    assert run(plan, recorder).exit_code == 0
    text, python = recorder.texts("workerpool0-0")
    assert text == "from the bucket"
    assert Path(python).parent == Path(sys.executable).parent


def test_the_region_of_a_vertex_job_is_its_location(desk, launch):
    plan = launch(desk.custom(custom_job(), location="europe-west4"), 1, [])
    assert plan.primary.env["CLOUD_ML_REGION"] == "europe-west4"


@pytest.fixture
def place(tmp_path):
    return GatewayPlace("127.0.0.1", 4711, "127.0.0.2", tmp_path / "gateway/ca-bundle.pem")


def with_gateway(store, folder, place, mode="users", **changes):
    return Launching(
        store,
        Engines.from_engine(LocalEngine(folder / "jobs", LocalOptions(isolation=Isolation(mode)))),
        images=images(*MAPPED),
        buckets=Buckets(root=folder / "buckets"),
        library=folder / LIBRARY,
        open_gateway=lambda: place,
        **changes,
    )


def googles(plan):
    return [name for _, name in plan.hosts if name.endswith("googleapis.com")]


WRITES = {"baseOutputDirectory": {"outputUriPrefix": "gs://out/a"}}


def test_with_a_gateway_directories_are_uris_as_on_google(desk, store, tmp_path, place):
    launch = with_gateway(store, tmp_path, place)
    plan = launch(desk.custom(custom_job(**WRITES)), 1, [])
    assert plan.primary.env["AIP_MODEL_DIR"] == "gs://out/a/model/"
    assert (tmp_path / "buckets/out/a/model").is_dir()
    plan = launch(desk.ml(ml_job(jobDir="gs://out/j")), 1, [])
    assert plan.primary.argv[-2:] == ("--job-dir", "gs://out/j")
    assert {
        ("127.0.0.2", "storage.googleapis.com"),
        ("127.0.0.2", "metadata.google.internal"),
    } <= set(plan.hosts)
    assert plan.shown == (str(tmp_path / "gateway"),)


def test_event_files_are_looked_for_in_the_folder_that_the_uri_means(desk, store, tmp_path, place):
    record = desk.custom(custom_job(**WRITES))
    spec, notes = store.to_launch(record.uid)
    tuned = replace(spec, study=STUDY, trial=TRIAL)
    store.to_launch = lambda _: (tuned, notes)
    plan = with_gateway(store, tmp_path, place)(record, 1, [])
    assert plan.primary.env["AIP_TENSORBOARD_LOG_DIR"] == "gs://out/a/3/logs/"
    assert plan.metrics.summaries == (f"{tmp_path}/buckets/out/a/3/logs",)


def test_a_setting_gives_paths_to_programs_that_have_a_gateway_too(desk, store, tmp_path, place):
    launch = with_gateway(store, tmp_path, place, gs_paths=GsPaths.PATH)
    env = launch(desk.custom(custom_job(**WRITES)), 1, []).primary.env
    assert env["AIP_MODEL_DIR"] == f"{tmp_path}/buckets/out/a/model/"
    assert env["GCE_METADATA_HOST"] == place.authority


def test_a_label_turns_the_gateway_off(desk, store, tmp_path, place):
    launch = with_gateway(store, tmp_path, place)
    job = {**custom_job(**WRITES), "labels": {"trainshed-gateway": "off"}}
    plan = launch(desk.custom(job), 1, [])
    assert plan.primary.env["AIP_MODEL_DIR"] == f"{tmp_path}/buckets/out/a/model/"
    assert "GCE_METADATA_HOST" not in plan.primary.env
    assert (plan.shown, googles(plan)) == ((), [])


def test_where_processes_have_no_names_of_their_own_a_proxy_leads_there(
    desk, store, tmp_path, place
):
    launch = with_gateway(store, tmp_path, place, mode="landlock")
    plan = launch(desk.custom(custom_job()), 1, [])
    assert plan.primary.env["https_proxy"] == f"http://{place.authority}"
    assert not googles(plan)


def test_a_container_with_a_network_of_its_own_asks_no_resolver_for_the_metadata_server(
    desk, store, tmp_path, place, monkeypatch
):
    """Google's logging client does, at its start; without a resolver each question takes 10 s."""
    monkeypatch.setattr(engine, "bridge_address", lambda _runtime: "172.17.0.1")
    runtime = DOCKER.with_isolation(is_read_only=True)
    launch = Launching(
        store,
        Engines.from_engine(LocalEngine(tmp_path / "jobs", LocalOptions(containers=runtime))),
        images=images(containers=runtime),
        buckets=Buckets(root=tmp_path / "buckets"),
        library=tmp_path / LIBRARY,
        open_gateway=lambda: place._replace(also=("172.17.0.1",)),
    )
    plan = launch(desk.custom(custom_job()), 1, [])
    assert plan.primary.env["GCE_METADATA_HOST"] == f"172.17.0.1:{place.port}"
    assert {("127.0.0.1", f"metadata.google.internal{dot}") for dot in ("", ".")} <= {*plan.hosts}
    assert not googles(plan)


def test_where_jobs_have_a_proxy_of_the_machine_s_ours_stands_before_it(
    desk, store, tmp_path, place
):
    proxies = {"HTTPS_PROXY": "http://proxy:3128", "no_proxy": "inner, .lan"}
    launch = with_gateway(store, tmp_path, place, proxies=proxies)
    plan = launch(desk.custom(custom_job()), 1, [])
    assert plan.primary.env["https_proxy"] == f"http://{place.authority}"
    assert {"inner", ".lan", "127.0.0.1"} <= set(plan.primary.env["no_proxy"].split(","))
    assert not googles(plan)
