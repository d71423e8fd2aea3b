"""Which plain backend serves a GPU inside of a reduction group; two ranks in threads, on gloo."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from types import SimpleNamespace

import pytest
import torch
from torch import distributed as dist

from trainshed_trainer.reduction import torch_group, torch_inner
from trainshed_trainer.reduction.torch_group import ReductionGroup

TIMEOUT = timedelta(seconds=100)
CUDA = torch.device("cuda")


@pytest.fixture
def visible_gpus(monkeypatch):
    """GPUs that a rank sees, and whether nccl was asked for one."""
    gpus = SimpleNamespace(uuids=["GPU-1"], nccl=0)

    def nccl(*_):
        gpus.nccl += 1

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: len(gpus.uuids))
    monkeypatch.setattr(
        torch.cuda, "get_device_properties", lambda at: SimpleNamespace(uuid=gpus.uuids[at])
    )
    monkeypatch.setattr(torch_inner, "is_nccl_available", lambda: True)
    monkeypatch.setattr(torch_inner, "nccl_backend", nccl)
    monkeypatch.setattr(torch_inner, "register", lambda *_: None)
    return gpus


def grouped(make):
    """What each of two ranks makes, with a store that they share."""
    store = dist.HashStore()
    with ThreadPoolExecutor(2) as pool:
        futures = [pool.submit(make, store, rank, 2, TIMEOUT) for rank in range(2)]
        return [future.result() for future in futures]


def test_ranks_on_one_gpu_get_gloo_for_it(visible_gpus):
    for inner in grouped(torch_inner.inner_group):
        assert inner.crowded
        assert inner.uses_gloo(CUDA)
        assert inner.uses_gloo(torch.device("cpu"))
    assert visible_gpus.nccl == 0


def test_ranks_that_may_choose_among_gpus_get_nccl(visible_gpus):
    visible_gpus.uuids = ["GPU-1", "GPU-2"]
    for inner in grouped(torch_inner.inner_group):
        assert not inner.crowded
        assert not inner.uses_gloo(CUDA)
    assert visible_gpus.nccl == 2


@pytest.mark.parametrize(
    ("uuids", "shared"),
    [
        ([], False),
        ([None, None], False),
        (["a", None, "b"], False),
        (["a", None, "a"], True),
    ],
)
def test_ranks_share_a_gpu_where_one_has_the_only_one_of_another(uuids, shared):
    assert torch_inner.share_a_gpu(uuids) is shared


def test_the_log_says_that_ranks_share_a_gpu(visible_gpus, capfd, monkeypatch):
    monkeypatch.setattr(torch_group, "_LOGGED", set())
    for group in grouped(ReductionGroup):
        group.shutdown()
    assert capfd.readouterr().err.count("ranks share a GPU, which nccl does not support") == 1
    assert visible_gpus.nccl == 0
