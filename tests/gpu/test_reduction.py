"""Tensors of a GPU reach reducers and come back right; two ranks share the GPU here."""

import contextlib
from pathlib import Path

import pytest

from gpu.card import IS_REAL
from reduction.reducer_process import ReducerProcess
from reduction.torch_world import TOKEN, run_world

pytestmark = pytest.mark.slow

PROGRAMS = Path(__file__).with_name("programs") / "reduce.py"
MB = 1 << 20


@pytest.fixture(scope="module")
def reducers():
    with reducer_processes(2) as processes:
        yield processes


@contextlib.contextmanager
def reducer_processes(count):
    """So many ``trainshed-reducer``, as many processes."""
    with contextlib.ExitStack() as stack:
        yield [
            stack.enter_context(
                ReducerProcess("--index", str(index), environ={"TRAINSHED_REDUCTION_TOKEN": TOKEN})
            )
            for index in range(count)
        ]


@pytest.fixture
def ranks(torch_device, tmp_path):
    """What ranks find that run a program with some reducers."""

    def run(program, reducers=(), world=2, **variables):
        addresses = ",".join(f"127.0.0.1:{reducer.port}" for reducer in reducers)
        variables = {
            "DEVICE": torch_device,
            "CUBLAS_WORKSPACE_CONFIG": ":4096:8",  # the same bits in every run
            "GLOO_SOCKET_IFNAME": "lo",
            "NCCL_SOCKET_IFNAME": "lo",
            "TRAINSHED_REDUCERS": addresses,
            "TRAINSHED_REDUCTION_ROUTE": "always",
            # they are on one host, and shall reduce all the same
            "TRAINSHED_REDUCTION_LOCAL": "0",
            **variables,
        }
        environments = [{}] * world
        return run_world(program, tmp_path, variables, environments, programs=PROGRAMS)

    return run


def assert_right(answers):
    for answer in answers:
        assert [name for name, right in answer["found"].items() if not right] == []


def test_sums_and_averages_of_a_gpu_have_the_bits_of_the_hosts(ranks, reducers):
    assert_right(ranks("sums", reducers))


@pytest.mark.full  # on the CPU: tests/reduction; make test-gpu runs it
def test_tensors_made_on_one_stream_can_be_used_on_another_after_wait(ranks, reducers):
    assert_right(ranks("streams", reducers))


@pytest.mark.full  # on the CPU: tests/reduction; make test-gpu runs it
def test_however_many_are_under_way_pinned_memory_has_a_bound(ranks, reducers):
    answers = ranks("many", reducers, TRAINSHED_REDUCTION_MAX_STAGING="8M")
    assert_right(answers)
    for answer in answers:
        assert answer["peak"] == 16 * MB, "one tensor of 12 MB is above the bound, and alone"


@pytest.mark.full  # on the CPU: tests/reduction; make test-gpu runs it
def test_a_training_is_the_same_by_reducers_as_by_gloo(ranks, reducers):
    """Two ranks: a sum of two numbers has one order, and half of it no rounding."""
    answers = ranks("training", reducers)
    for how in ("gloo", "hook", "group"):
        assert answers[0][how]["digest"] == answers[1][how]["digest"]
        for answer in answers:
            assert answer[how]["losses"] == pytest.approx(answer["gloo"]["losses"], rel=1e-5)
            assert IS_REAL or answer[how] == answer["gloo"]


@pytest.mark.full  # on the CPU: tests/reduction; make test-gpu runs it
def test_a_training_of_one_process_is_that_of_the_bare_program(ranks):
    (answer,) = ranks("alone", world=1)
    assert answer["group"]["losses"] == pytest.approx(answer["bare"]["losses"], rel=1e-5)


@pytest.mark.full  # on the CPU: tests/reduction; make test-gpu runs it
def test_a_reducer_that_is_killed_is_named_to_every_rank_and_nobody_hangs(ranks):
    with reducer_processes(2) as reducers:
        answers = ranks("losing", reducers, VICTIM=str(reducers[1].process.pid))
    assert answers == [{"culprit": "reducer 1", "device works": True}] * 2
