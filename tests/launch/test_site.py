"""What the place of an attempt adds to its plan."""

import pytest

from launch.builders import (
    STUDY,
    TRIAL,
    container,
    ml_spec,
    plan_of,
    replica_of,
    site_of,
    vertex_spec,
)
from trainshed.launch.compose import compose
from trainshed.launch.site import MachineLimits, ProgramSite
from trainshed.model.gateway import GatewaySight
from trainshed.model.job import Accelerator
from trainshed.model.launch_plan import Environment, Owner
from trainshed.model.network import NetworkLayout
from trainshed.model.roles import Role

WORKERS = {Role.PRIMARY: 1, Role.WORKER: 1}
REDUCERS = {**WORKERS, Role.REDUCER: 1}
PACKAGES = Environment(python="/job/bin/python", packages=("/trainer.tar.gz",))
GATEWAY = GatewaySight(
    address="127.0.0.1:80",
    folder="/gateway",
    hosts=(("127.0.0.2", "storage.googleapis.com"),),
    listeners=(("127.0.0.2", 443),),
)
MEASURED = container(env=(("TRAINSHED_STEPS", "hooks"),))


def env_with(program, **site):
    return plan_of(vertex_spec(program=program), programs={Role.PRIMARY: site["at"]}).primary.env


def test_path_gives_way_to_the_job_s():
    at = ProgramSite(python="/env/bin/python", path="/env/bin:/usr/bin")
    assert env_with(container(), at=at)["PATH"] == "/env/bin:/usr/bin"
    assert env_with(container(env=(("PATH", "/mine"),)), at=at)["PATH"] == "/mine"
    assert "PATH" not in env_with(container(), at=ProgramSite())


@pytest.mark.parametrize(
    ("own", "library", "expected"),
    [
        (None, None, None),
        ("/mine", None, "/mine"),
        (None, "/library", "/inherited:/library"),
        ("/mine", "/library", "/mine:/library"),
    ],
)
def test_the_library_comes_last_on_pythonpath(own, library, expected):
    program = container(env=(("PYTHONPATH", own),) if own else ())
    at = ProgramSite(library=library, python_path="/inherited", hooks="/hooks")
    assert env_with(program, at=at).get("PYTHONPATH") == expected


def test_hooks_come_first_on_pythonpath_of_a_job_that_asks_for_them():
    at = ProgramSite(library="/library", hooks="/hooks")
    assert env_with(MEASURED, at=at)["PYTHONPATH"] == "/hooks:/library"
    assert env_with(MEASURED, at=ProgramSite(hooks="/hooks"))["PYTHONPATH"] == "/hooks"


def test_hooks_are_not_seen_in_an_image_and_the_log_says_so():
    spec = vertex_spec(program=MEASURED)
    (note,) = plan_of(spec, in_containers={Role.PRIMARY}).notes
    assert note.startswith("Hooks cannot measure the steps of a program in its own image")
    assert plan_of(spec).notes == ()


@pytest.mark.parametrize(
    ("word", "at", "expected"),
    [
        ("python3.11", "/job/bin/python", "python"),
        ("/usr/bin/python3", "", "python"),
        ("python", "/other/bin/python", "/other/bin/python"),
        ("torchrun", "/other/bin/python", "torchrun"),
    ],
)
def test_a_command_names_the_interpreter_of_its_replica(word, at, expected):
    program = container(command=(word, "x.py"), args=())
    programs = {Role.PRIMARY: ProgramSite(python=at)}
    plan = plan_of(vertex_spec(program=program), programs=programs, environment=PACKAGES)
    assert plan.primary.argv == (expected, "x.py")
    assert plan.primary.python == at


def test_an_image_may_start_by_its_own_command():
    spec = vertex_spec(program=container(command=(), args=()))
    plan = plan_of(spec, in_containers={Role.PRIMARY})
    assert plan.primary.argv == ()
    assert (plan.primary.container.command, plan.primary.container.args) == (None, None)


def test_a_reducer_starts_with_our_own_interpreter():
    programs = {Role.REDUCER: ProgramSite(python="/ours/python", library="/library")}
    reducer = replica_of(plan_of(vertex_spec(REDUCERS), programs=programs), Role.REDUCER)
    assert reducer.argv[:4] == ("/ours/python", "-P", "-m", "trainshed.reduction")
    assert reducer.env["PYTHONPATH"] == "/library"
    assert reducer.python == ""


def test_variables_of_the_site_win_over_the_job_s_but_not_at_a_reducer():
    spec = vertex_spec(REDUCERS, container(env=(("A", "job"),)))
    plan = plan_of(spec, env={"A": "site"})
    assert plan.primary.env["A"] == "site"
    assert "A" not in replica_of(plan, Role.REDUCER).env


def test_an_emulated_replica_gets_no_gpus_and_limits_are_those_of_each_replica():
    gpus = Accelerator(type="NVIDIA_TESLA_T4", count=4)
    plan = plan_of(
        vertex_spec(WORKERS, accelerator=gpus),
        emulated={(Role.WORKER, 0)},
        limits={(Role.PRIMARY, 0): MachineLimits(memory_bytes_max=1 << 30, cpus_max=2.0)},
    )
    worker = replica_of(plan, Role.WORKER)
    assert (plan.primary.gpu_count, plan.primary.gpu_type) == (4, "NVIDIA_TESLA_T4")
    assert (plan.primary.memory_bytes_max, plan.primary.cpus_max) == (1 << 30, 2.0)
    assert (worker.gpu_count, worker.gpu_type) == (0, None)
    assert (worker.memory_bytes_max, worker.cpus_max) == (None, None)


def test_replicas_that_train_get_gpus_in_a_job_that_names_no_machines():
    counts = {Role.PRIMARY: 1, Role.EVALUATOR: 1}
    plan = plan_of(vertex_spec(counts), gpus_per_replica=2)
    assert [replica.gpu_count for replica in plan.replicas] == [2, 0]


def test_packages_are_installed_on_the_machine_unless_all_replicas_run_in_images():
    spec = vertex_spec(WORKERS)
    assert plan_of(spec, environment=PACKAGES).environment == PACKAGES
    contained = plan_of(spec, environment=PACKAGES, in_containers={Role.PRIMARY, Role.WORKER})
    assert contained.environment.packages == ()


def test_a_network_of_its_own_has_an_address_for_each_replica_and_the_gateway():
    spec = vertex_spec(WORKERS)
    plan = plan_of(spec, layout=NetworkLayout.REPLICA, has_names=True, gateway=GATEWAY)
    hosts = [address.host for address in site_of(spec).addresses.values()]
    assert plan.network.addresses == tuple(hosts)
    assert plan.network.listeners == GATEWAY.listeners
    assert plan.hosts[-1] == GATEWAY.hosts[0]
    assert [name for _, name in plan.hosts[1:4:2]] == ["workerpool0-0", "workerpool1-0"]
    assert plan_of(spec, layout=NetworkLayout.JOB).network.listeners == ()
    assert (plan_of(spec).network, plan_of(spec).hosts) == (None, ())


def test_the_secret_of_a_reduction_is_named_to_those_who_take_part():
    counts = {**REDUCERS, Role.EVALUATOR: 1}
    plan = plan_of(vertex_spec(counts), token_file="/private/token")
    names = {r.role: r.env.get("TRAINSHED_REDUCTION_TOKEN_FILE") for r in plan.replicas}
    assert names.pop(Role.EVALUATOR) is None
    assert set(names.values()) == {"/private/token"}


def path_of(uri):
    return uri.replace("gs://", "/buckets/")


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (ml_spec(), ("/attempts/1/checkpoints", "/buckets/bkt/out/digits")),
        (vertex_spec(), ("/attempts/1/checkpoints", "/buckets/bkt/out/digits/checkpoints")),
    ],
)
def test_later_attempts_are_told_where_checkpoints_may_be(spec, expected):
    site = site_of(spec, path_of=path_of, earlier=("/attempts/1",))
    assert compose(spec, site, job_id="j", attempt=2).checkpoints == expected
    assert plan_of(spec, path_of=path_of).checkpoints == ()


def test_a_trial_s_metrics_are_read_in_its_own_files_and_summaries():
    site = {"metric_file": "/metrics/output.metrics", "path_of": path_of, "buckets": "/buckets"}
    metrics = plan_of(ml_spec(WORKERS, study=STUDY), trial=TRIAL, **site).metrics
    assert metrics.tags == ("accuracy",)
    assert metrics.files[0] == "/metrics/output.metrics"
    assert len(set(metrics.files)) == 2
    assert metrics.summaries == ("/buckets/bkt/out/digits/3",)
    vertex = plan_of(vertex_spec(study=STUDY), trial=TRIAL, map_uri=path_of, **site).metrics
    assert vertex.summaries == ("/buckets/bkt/out/digits/3/logs/",)
    assert plan_of(ml_spec(), **site).metrics is None


def test_a_metric_file_elsewhere_is_not_read():
    env = (("CLOUD_ML_HP_METRIC_FILE", "/etc/passwd"),)
    site = {"metric_file": "/metrics/output.metrics", "buckets": "/buckets"}
    spec = vertex_spec(program=container(env=env), study=STUDY)
    assert plan_of(spec, trial=TRIAL, **site).metrics.files == ()


def test_what_the_site_says_of_the_attempt_is_in_the_plan():
    plan = plan_of(
        vertex_spec(),
        owner=Owner(project="p", number=3),
        binds=(("/a", "/b"),),
        reads=("/python",),
        shown=("/gateway",),
        server_ports=(8470,),
        notes=("First.", "First."),
        warnings=("Slow.",),
    )
    assert (plan.owner.number, plan.binds, plan.reads) == (3, (("/a", "/b"),), ("/python",))
    assert (plan.shown, plan.server_ports) == (("/gateway",), (8470,))
    assert (plan.notes, plan.warnings) == (("First.",), ("Slow.",))
