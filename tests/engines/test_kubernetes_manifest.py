"""The objects of an attempt: whole ones as golden files, and the promises behind their fields."""

import base64
import json
import time
from pathlib import Path

import jsonschema_rs
import pytest
import yaml

from engines.kubernetes_requests import (
    IMAGE,
    KEY,
    N1_STANDARD_4,
    N1_STANDARD_8_T4,
    NAME,
    T4,
    find_container,
    find_pod,
    make_request,
)
from golden import check_golden
from trainshed.engines.kubernetes import names, pod
from trainshed.engines.kubernetes.gpus import GpuRow
from trainshed.engines.kubernetes.manifest import (
    compose_jobset,
    compose_owner_patch,
    compose_secret,
)
from trainshed.engines.kubernetes.options import PodScheduling
from trainshed.engines.kubernetes.quantities import parse_quantity
from trainshed.engines.kubernetes.request import choose_deadline_s, list_roles
from trainshed.engines.warden.launcher_variables import LAUNCHER, SECRET
from trainshed.model.attempt import AttemptKey
from trainshed.model.faults import EngineFault
from trainshed.model.launch_plan import ReplicaPlan
from trainshed.model.resources import Demand, GroupDemand, JobDemand
from trainshed.model.roles import Role

ROOT = Path(__file__).parents[1]
GOLDEN = ROOT / "golden" / "kubernetes"
DEFINITION = ROOT / "k8s" / "crds" / "jobset.x-k8s.io_jobsets.yaml"
#: The Kubernetes versions whose schemas a manifest must meet.
VERSIONS = ("1.30", "1.36")
SIZE_MAX = 16_000
GANG = (
    (Role.PRIMARY, 1, N1_STANDARD_8_T4),
    (Role.WORKER, 3, N1_STANDARD_8_T4),
    (Role.PARAMETER_SERVER, 2, N1_STANDARD_4),
    (Role.EVALUATOR, 1, N1_STANDARD_8_T4),
)
SETTINGS = {
    "image_pull_secrets": ["registry"],
    "image_pull_policy": "IfNotPresent",
    "node_selector": {"pool": "training"},
    "tolerations": [{"key": "pool", "value": "training", "effect": "NoSchedule"}, {}],
    "work_bytes_max": 100 << 30,
    "shm_bytes": 8 << 30,
    "security": {
        "run_as_user": 2000,
        "run_as_group": 2000,
        "run_as_non_root": True,
        "fs_group": 2000,
        "supplemental_groups": [3000],
        "allow_privilege_escalation": False,
        "drop_capabilities": ["ALL"],
        "add_capabilities": ["IPC_LOCK"],
        "seccomp": "profiles/training.json",
    },
}
#: Two names of one type: pods need an affinity for it.
MANY = {
    T4: GpuRow(
        selector={"nvidia.com/gpu.product": ("Tesla-T4", "Tesla-T4-16GB"), "zone": ("a",)},
        runtime_class="nvidia",
    )
}
REQUESTS = {
    "primary": make_request(deadline_s=90_000),
    "gang_with_gpus_in_a_queue": make_request(
        *GANG,
        scheduling=PodScheduling(
            queue="gpus", priority_class="batch", workload_priority_class="low"
        ),
        buckets=("data", "models.example.com"),
        deadline_s=90_000,
    ),
    "container_image": make_request(
        (Role.PRIMARY, 1, N1_STANDARD_8_T4), settings=SETTINGS, gpus=MANY
    ),
    "python_package": make_request(
        (Role.PRIMARY, 1, Demand()),
        (Role.REDUCER, 2, Demand()),
        settings={"policy": "best-effort", "buckets": "shared/buckets"},
        image="registry.internal/tf2-cpu.2-15.py310:latest",
        buckets=("packages",),
    ),
}


@pytest.fixture(scope="module")
def schema():
    """The schema of JobSets, which also refuses fields that it does not have."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the slow one takes seconds
    definition = yaml.load(DEFINITION.read_text("utf-8"), loader)  # noqa: S506 - a safe loader
    [version] = (row for row in definition["spec"]["versions"] if row["name"] == "v1alpha2")
    return jsonschema_rs.validator_for(close(version["schema"]["openAPIV3Schema"]))


def close(node):
    """Refuse unknown fields, as ``fieldValidation=Strict`` does."""
    if isinstance(node, list):
        return [close(item) for item in node]
    if not isinstance(node, dict):
        return node
    closed = {key: close(value) for key, value in node.items()}
    if isinstance(node.get("properties"), dict) and "additionalProperties" not in node:
        closed["additionalProperties"] = False
    return closed


def list_values(tree, name):
    """All values of a field, anywhere in a tree."""
    if isinstance(tree, dict):
        yield from (value for key, value in tree.items() if key == name)
    for below in tree.values() if isinstance(tree, dict) else tree:
        if isinstance(below, dict | list):
            yield from list_values(below, name)


@pytest.mark.parametrize("name", REQUESTS)
def test_the_whole_jobset(name):
    jobset = compose_jobset(REQUESTS[name])
    text = yaml.safe_dump(json.loads(json.dumps(jobset)), sort_keys=False)
    check_golden(GOLDEN / f"{name}.yaml", text)


@pytest.mark.parametrize("name", REQUESTS)
def test_jobset_accepts_every_field(schema, name):
    assert [str(error) for error in schema.iter_errors(compose_jobset(REQUESTS[name]))] == []


def test_the_schema_refuses_other_fields(schema):
    jobset = compose_jobset(make_request())
    find_pod(jobset)["restartPolice"] = "Never"
    assert any("restartPolice" in str(error) for error in schema.iter_errors(jobset))


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", REQUESTS)
def test_kubernetes_accepts_every_field_of_jobs_pods_and_secrets(name, version):
    validate = pytest.importorskip(
        "kubernetes_validate", reason="kubernetes-validate is not installed; make test installs it"
    ).validate
    request = REQUESTS[name]
    validate(compose_secret(request, "s"), version, strict=True)
    for job in compose_jobset(request)["spec"]["replicatedJobs"]:
        template = job["template"]
        metadata = {**template["metadata"], "name": job["name"]}
        kinds = {"apiVersion": "batch/v1", "kind": "Job"}
        validate({**kinds, "metadata": metadata, "spec": template["spec"]}, version, strict=True)


@pytest.mark.parametrize("name", REQUESTS)
def test_the_secret_is_in_the_secret_alone(name):
    secret = "5e" * 32
    obj = compose_secret(REQUESTS[name], secret)
    assert base64.b64decode(obj["data"][pod.SECRET_KEY]).decode() == secret
    assert obj["metadata"]["name"] == NAME
    text = repr(REQUESTS[name]) + json.dumps(compose_jobset(REQUESTS[name]))
    assert secret not in text
    assert base64.b64encode(secret.encode()).decode() not in text


def test_containers_get_no_variable_of_programs():
    jobset = compose_jobset(REQUESTS["gang_with_gpus_in_a_queue"])
    variables = {row["name"] for env in list_values(jobset, "env") for row in env}
    assert variables == {LAUNCHER, SECRET, "TRAINSHED_POD_UID"}
    assert "TF_CONFIG" not in json.dumps(jobset)


def test_wardens_find_the_launcher_by_its_name():
    env = find_container(compose_jobset(make_request()))["env"]
    address = {row["name"]: row for row in env}[LAUNCHER]["value"]
    host = f"{NAME}-primary-0-0"
    assert address == f"{host};61100;{host}.{NAME};"


def test_replicas_have_their_ranks_from_the_order_of_the_plan():
    jobset = compose_jobset(REQUESTS["gang_with_gpus_in_a_queue"])
    firsts = {}
    for job in jobset["spec"]["replicatedJobs"]:
        command = find_container(jobset, role=job["name"])["command"]
        firsts[job["name"]] = command[command.index("--first") + 1]
        assert command[command.index("--rank-variable") + 1] == "JOB_COMPLETION_INDEX"
    assert firsts == {"primary": "0", "worker": "1", "ps": "4", "evaluator": "6"}


def test_wardens_dial_longer_than_pods_may_take_to_run():
    command = find_container(compose_jobset(make_request(settings={"start_timeout_s": 3600})))[
        "command"
    ]
    assert command[-2:] == ["--dial-s", "3900"]


def test_only_the_launcher_sees_the_folder_of_the_attempt():
    jobset = compose_jobset(REQUESTS["gang_with_gpus_in_a_queue"])
    folder = f"abc/jobs/{KEY.uid}/{KEY.attempt}"
    for job in jobset["spec"]["replicatedJobs"]:
        for container in find_pod(jobset, job["name"])["containers"]:
            paths = [mount.get("subPath") for mount in container["volumeMounts"]]
            assert (folder in paths) == (container["name"] == "launcher")


def test_no_mount_shows_the_whole_claim():
    for request in REQUESTS.values():
        for mounts in list_values(compose_jobset(request), "volumeMounts"):
            assert all(mount.get("subPath") for mount in mounts if mount["name"] == "spool")


def test_the_launcher_runs_as_the_servers_user_without_rights():
    launcher = find_container(compose_jobset(make_request(user=0, group=0)), "launcher")
    context = launcher["securityContext"]
    assert (context["runAsUser"], "runAsNonRoot" in context) == (0, False)
    assert context["capabilities"] == {"drop": ["ALL"]}


def test_an_exact_pod_has_the_machine_and_its_limit_of_memory():
    resources = find_container(compose_jobset(make_request((Role.PRIMARY, 1, N1_STANDARD_8_T4))))[
        "resources"
    ]
    assert resources == {
        "requests": {"cpu": "8", "memory": "30720Mi", "nvidia.com/gpu": "2"},
        "limits": {"memory": "30720Mi", "nvidia.com/gpu": "2"},
    }


def test_a_best_effort_pod_requests_little_besides_its_gpus():
    request = make_request((Role.PRIMARY, 1, N1_STANDARD_8_T4), settings={"policy": "best-effort"})
    assert find_container(compose_jobset(request))["resources"] == {
        "requests": {"cpu": "100m", "memory": "64Mi", "nvidia.com/gpu": "2"},
        "limits": {"nvidia.com/gpu": "2"},
    }


def test_quantities_are_texts():
    for request in REQUESTS.values():
        jobset = compose_jobset(request)
        amounts = [*list_values(jobset, "requests"), *list_values(jobset, "limits")]
        texts = [text for row in amounts for text in row.values()]
        texts += list_values(jobset, "sizeLimit")
        assert all(isinstance(text, str) and parse_quantity(text) > 0 for text in texts)


def test_pods_live_longer_than_the_longest_grace_period():
    request = make_request(settings={"grace_s_max": 120.5})
    assert find_pod(compose_jobset(request))["terminationGracePeriodSeconds"] == 151


def test_a_cluster_ends_an_attempt_only_long_after_its_launcher():
    options = make_request().options
    assert choose_deadline_s(None, options) is None
    assert choose_deadline_s(3600.5, options) == 3601 + 900 + 300 + 7 * 3600


def test_a_jobset_without_a_queue_is_not_suspended():
    jobset = compose_jobset(make_request(scheduling=PodScheduling(workload_priority_class="low")))
    assert "suspend" not in jobset["spec"]
    assert not any("kueue" in label for label in jobset["metadata"]["labels"])


def test_a_gpu_that_the_cluster_lacks_is_refused():
    request = make_request((Role.PRIMARY, 1, N1_STANDARD_8_T4), gpus={"NVIDIA_L4": GpuRow()})
    with pytest.raises(EngineFault, match=f"no {T4}; its GPUs are: NVIDIA_L4"):
        compose_jobset(request)


def test_a_primary_without_gpus_needs_no_row():
    compose_jobset(make_request(gpus={"NVIDIA_L4": GpuRow()}))


@pytest.mark.parametrize("bucket", ["", "..", "a/b", ".hidden"])
def test_the_name_of_a_bucket_cannot_leave_the_folder_of_buckets(bucket):
    with pytest.raises(EngineFault, match="cannot mount the bucket"):
        compose_jobset(make_request(buckets=(bucket,)))


def test_more_evaluators_than_names_have_digits_are_refused():
    key = AttemptKey(10**18, 1)
    roles = ((Role.PRIMARY, 1, Demand()), (Role.EVALUATOR, 11, Demand()))
    request = make_request(*roles, key=key, installation="a" * 18)
    with pytest.raises(EngineFault, match="at most 10 replicas of the role evaluator"):
        compose_jobset(request)


def test_the_secret_goes_with_its_jobset():
    jobset = compose_jobset(make_request())
    jobset["metadata"]["uid"] = "81ec8dc8"
    assert compose_owner_patch(jobset) == {
        "metadata": {
            "ownerReferences": [
                {
                    "apiVersion": "jobset.x-k8s.io/v1alpha2",
                    "kind": "JobSet",
                    "name": NAME,
                    "uid": "81ec8dc8",
                }
            ]
        }
    }


def test_labels_are_on_the_jobset_its_jobs_and_its_pods():
    jobset = compose_jobset(REQUESTS["gang_with_gpus_in_a_queue"])
    assert names.key_of(jobset["metadata"]["labels"], "abc") == KEY
    for job in jobset["spec"]["replicatedJobs"]:
        for template in (job["template"], job["template"]["spec"]["template"]):
            labels = template["metadata"]["labels"]
            assert names.key_of(labels, "abc") == KEY
            assert names.JOB_NAMES[names.role_of(labels)] == job["name"]


def make_replica(role, index, image="i"):
    return ReplicaPlan(role=role, index=index, task_name=f"{image}-{index}", argv=())


def test_the_roles_of_a_plan():
    replicas = [
        make_replica(Role.PRIMARY, 0, "a"),
        *(make_replica(Role.WORKER, index, "b") for index in range(3)),
        make_replica(Role.EVALUATOR, 0, "c"),
    ]
    demand = JobDemand(
        region=None, groups=(GroupDemand(role=Role.WORKER, count=3, each=N1_STANDARD_4),)
    )
    roles = list_roles(replicas, demand, lambda replica: replica.task_name[0])
    rows = [(role.role, role.first, role.count, role.image, role.demand) for role in roles]
    assert rows == [
        (Role.PRIMARY, 0, 1, "a", Demand()),
        (Role.WORKER, 1, 3, "b", N1_STANDARD_4),
        (Role.EVALUATOR, 4, 1, "c", Demand()),
    ]


@pytest.mark.parametrize(
    "roles", [(), (Role.WORKER, Role.PRIMARY), (Role.PRIMARY, Role.WORKER, Role.PRIMARY)]
)
def test_a_plan_in_another_order_is_a_mistake_of_ours(roles):
    replicas = [make_replica(role, index) for index, role in enumerate(roles)]
    with pytest.raises(ValueError, match="the primary first"):
        list_roles(replicas, JobDemand(region=None, groups=()), lambda _: IMAGE)


def measure_manifest(count):
    """The size of the largest usual JobSet in bytes, and the seconds to compose it."""
    gang = [(role, count if role is Role.WORKER else size, demand) for role, size, demand in GANG]
    request = make_request(*gang, buckets=("data", "models", "packages"), deadline_s=1)
    started_s = time.perf_counter()
    jobset = compose_jobset(request)
    seconds = time.perf_counter() - started_s
    return len(json.dumps(jobset, separators=(",", ":"))), seconds


def test_the_size_does_not_depend_on_the_number_of_replicas():
    (size, _), (large, seconds) = measure_manifest(512), measure_manifest(4096)
    print(f"512 replicas: {size} bytes; 4,096: {large} bytes in {seconds * 1000:.2f} ms")  # noqa: T201
    assert size < SIZE_MAX
    assert large - size < 10
