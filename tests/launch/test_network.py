"""Which layout of its own network a job has: by label, else by GPUs and the number of replicas."""

from dataclasses import replace

import pytest

from launch.builders import ml_spec, vertex_spec
from trainshed.launch.network import layout_of
from trainshed.model.job import Accelerator
from trainshed.model.network import NETWORK_LABEL, NetworkLayout
from trainshed.model.roles import Role

ONE = {Role.PRIMARY: 1}
THREE = {Role.PRIMARY: 1, Role.WORKER: 2}
GPU = Accelerator(type="NVIDIA_TESLA_T4", count=1)
TPU = Accelerator(type="TPU_V2", count=8)


@pytest.mark.parametrize(
    ("counts", "accelerator", "label", "expected"),
    [
        (ONE, None, None, NetworkLayout.JOB),
        (ONE, GPU, None, NetworkLayout.JOB),
        (THREE, None, None, NetworkLayout.REPLICA),
        (THREE, GPU, None, NetworkLayout.JOB),
        (THREE, TPU, None, NetworkLayout.REPLICA),
        (THREE, None, "job", NetworkLayout.JOB),
        (THREE, GPU, "replica", NetworkLayout.REPLICA),
        (ONE, None, "replica", NetworkLayout.REPLICA),
        (THREE, None, "a label of an earlier release", NetworkLayout.REPLICA),
    ],
)
@pytest.mark.parametrize("spec_of", [ml_spec, vertex_spec])
def test_replicas_without_gpus_have_a_namespace_each(spec_of, counts, accelerator, label, expected):
    spec = spec_of(counts, accelerator=accelerator)
    spec = replace(spec, labels={NETWORK_LABEL: label} if label else {})
    assert layout_of(spec) is expected


def test_a_group_of_no_replicas_shares_no_gpu():
    spec = vertex_spec({Role.PRIMARY: 1, Role.WORKER: 1, Role.EVALUATOR: 0})
    groups = [replace(group, accelerator=None if group.count else GPU) for group in spec.groups]
    assert layout_of(replace(spec, groups=tuple(groups))) is NetworkLayout.REPLICA


def test_gpus_of_one_group_keep_all_replicas_in_one_namespace():
    spec = vertex_spec(THREE)
    workers = replace(spec.groups[1], accelerator=GPU)
    assert layout_of(replace(spec, groups=(spec.groups[0], workers))) is NetworkLayout.JOB
