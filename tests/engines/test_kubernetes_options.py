"""The table of a Kubernetes engine: what is wrong is said with what would be accepted."""

from dataclasses import fields

import pytest

from engines.kubernetes_requests import read_options
from trainshed.engines.kubernetes import options
from trainshed.engines.kubernetes.gpus import GpuRow
from trainshed.engines.kubernetes.options import (
    KubernetesOptions,
    PodScheduling,
    choose_scheduling,
    wishes_of,
)
from trainshed.engines.kubernetes.security import SecuritySettings
from trainshed.engines.kubernetes.tolerations import Toleration
from trainshed.model.faults import UsageFault
from trainshed.model.resources import FleetPolicy


def test_what_is_not_said_has_a_default():
    settings = read_options()
    assert (settings.namespace, settings.queue_of("p"), settings.registry) == ("", "", True)
    assert (settings.start_timeout_s, settings.image_timeout_s) == (900.0, 300.0)
    assert settings.policy is FleetPolicy.EXACT
    assert settings.security == SecuritySettings()


def test_images_run_as_they_are_by_default():
    values = [getattr(SecuritySettings(), setting.name) for setting in fields(SecuritySettings)]
    assert not any(value not in (None, "", ()) for value in values)


def test_all_settings_of_a_table():
    settings = read_options(
        namespace="training",
        image_pull_secrets=["registry.internal"],
        node_selector={"cloud.google.com/gke-nodepool": "batch"},
        tolerations=[{"key": "pool", "value": "batch", "effect": "NoExecute", "seconds": 60}],
        gpus={
            "NVIDIA_TESLA_T4": {
                "resource": "nvidia.com/gpu",
                "selector": {"gpu": "t4", "zone": ["a", "b"]},
                "tolerations": [{"key": "gpu"}],
                "runtime_class": "nvidia",
            }
        },
        security={"run_as_user": 1000, "drop_capabilities": ["ALL"], "seccomp": "RuntimeDefault"},
        policy="best-effort",
        shm_bytes=1 << 30,
        buckets="/shared/buckets/",
    )
    assert settings.tolerations == (Toleration("pool", "batch", "NoExecute", 60),)
    assert settings.gpus == {
        "NVIDIA_TESLA_T4": GpuRow(
            selector={"gpu": ("t4",), "zone": ("a", "b")},
            tolerations=(Toleration("gpu"),),
            runtime_class="nvidia",
        )
    }
    assert settings.security.drop_capabilities == ("ALL",)
    assert (settings.policy, settings.buckets) == (FleetPolicy.BEST_EFFORT, "shared/buckets")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"start_timeout_s": 300}, "image_timeout_s of a Kubernetes engine must be less than"),
        ({"claime": "x"}, "no setting 'claime'; accepted are: spool, claim,"),
        ({"spool": ""}, "needs `spool`"),
        ({"claim": ""}, "needs `claim`"),
        ({"spool": "srv"}, "must be an absolute path, got 'srv'"),
        ({"claim": "My Claim"}, "claim of a Kubernetes engine must be"),
        ({"namespace": "a.b"}, "namespace of a Kubernetes engine must be"),
        ({"queue": {"p": "-q"}}, "queue.p of a Kubernetes engine must be"),
        ({"queue": 3}, "queue of a Kubernetes engine must be a text"),
        ({"wishes": ["queue", "node-selector"]}, "got 'node-selector'"),
        ({"wishes": "queue"}, "must be a list of queue"),
        ({"image_pull_policy": "always"}, "one of Always, IfNotPresent, Never"),
        ({"image_pull_secrets": "a"}, "image_pull_secrets of a Kubernetes engine must be"),
        ({"image_pull_secrets": ["a b"]}, "image_pull_secrets[0]"),
        ({"node_selector": {"pool": "a b"}}, "node_selector.pool"),
        ({"node_selector": {"a b": "x"}}, "a name such as nvidia.com/gpu, got 'a b'"),
        ({"tolerations": {"key": "x"}}, "must be a list of tables"),
        ({"tolerations": [{"keys": "x"}]}, "tolerations[0] of a Kubernetes engine has no setting"),
        ({"tolerations": [{"key": "x", "effect": "Evict"}]}, "one of NoSchedule, PreferNoSchedule"),
        ({"tolerations": [{"value": "x"}]}, "tolerations[0].key"),
        ({"tolerations": [{"key": "x", "seconds": 3}]}, "NoExecute if there are seconds, got ''"),
        ({"gpus": {"T4": "x"}}, "gpus.T4 of a Kubernetes engine must be a table"),
        ({"gpus": {"T4": {"count": 1}}}, "gpus.T4 of a Kubernetes engine has no setting 'count'"),
        ({"gpus": {"T4": {"resource": "gpu"}}}, "the name of a resource, such as nvidia.com/gpu"),
        ({"gpus": {"T4": {"selector": {"a": []}}}}, "gpus.T4.selector.a"),
        ({"gpus": {"T4": {"selector": "a"}}}, "a table of texts or of lists of texts"),
        ({"security": {"privileged": True}}, "security of a Kubernetes engine has no setting"),
        ({"security": {"run_as_user": -1}}, "security.run_as_user"),
        ({"security": {"run_as_user": 2**31}}, "from 0 to 2147483647"),
        ({"security": {"run_as_non_root": "yes"}}, "true or false"),
        ({"security": {"drop_capabilities": ["all"]}}, "such as IPC_LOCK"),
        ({"security": {"seccomp": "../x"}}, "RuntimeDefault, Unconfined or the relative path"),
        ({"security": {"supplemental_groups": 5}}, "a list of whole numbers"),
        ({"security": "restricted"}, "security of a Kubernetes engine must be a table"),
        ({"policy": "emulate"}, "exact or best-effort"),
        ({"buckets": "../x"}, "a path in the claim"),
        ({"shm_bytes": 0}, "a whole number from 1"),
        ({"launcher_memory": "64 MB"}, "a quantity such as 64Mi or 500m"),
        ({"registry": "off"}, "true or false"),
        ({"poll_s": "10"}, "a number from 0"),
        ({"grace_s_max": 3601}, "a number from 0 to 3600"),
        ({"grace_s": 400}, "grace_s_max of a Kubernetes engine must be at least grace_s (400)"),
    ],
)
def test_bad_settings(settings, words):
    with pytest.raises(UsageFault) as caught:
        read_options(**settings)
    assert words in str(caught.value)


def test_every_setting_refuses_a_value_of_another_type():
    for setting in fields(KubernetesOptions):
        with pytest.raises(UsageFault):
            options.read({"spool": "/s", "claim": "c", setting.name: object()})


def test_the_queue_of_a_project():
    settings = read_options(queue={"vision": "q1", "*": "rest"})
    assert [settings.queue_of(project) for project in ("vision", "other")] == ["q1", "rest"]
    assert read_options(queue="all").queue_of("x") == "all"
    assert read_options(queue={"vision": "q1"}).queue_of("other") == ""


def test_labels_choose_before_the_settings():
    settings = read_options(
        queue={"*": "rest"}, priority_class="low", wishes=["queue", "workload-priority-class"]
    )
    wants = {
        "trainshed-engine": "k",
        "trainshed-kubernetes-queue": "fast",
        "trainshed-kubernetes-workload-priority-class": "high",
    }
    assert choose_scheduling(wants, "p", settings) == PodScheduling(
        queue="fast", priority_class="low", workload_priority_class="high"
    )
    assert choose_scheduling({}, "p", settings) == PodScheduling(queue="rest", priority_class="low")


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("priority-class", "high", "accepted are: trainshed-kubernetes-queue"),
        ("queue", "my_queue", "must be a name of Kubernetes"),
        ("queue", "", "must be a name of Kubernetes"),
    ],
)
def test_other_wishes_are_refused(name, text, words):
    with pytest.raises(UsageFault) as caught:
        wishes_of({f"trainshed-kubernetes-{name}": text}, read_options(wishes=["queue"]))
    assert words in str(caught.value)


def test_without_wishes_no_label_is_accepted():
    with pytest.raises(UsageFault, match="accepted are: none"):
        wishes_of({"trainshed-kubernetes-queue": "q"}, read_options())
