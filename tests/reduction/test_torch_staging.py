"""Tensors of a device reach the reducers through host memory, while the device goes on.

There is no GPU here: a device of threads stands for it, whose copies are late on purpose.
"""

import queue
import threading
from datetime import timedelta

import pytest
import torch

from reduction.crew import soon
from reduction.thread_device import PATIENCE_S, ThreadDevice
from trainshed_trainer.reduction.errors import ReductionError
from trainshed_trainer.reduction.torch_exchange import Carrier
from trainshed_trainer.reduction.torch_staging import staging_max
from trainshed_trainer.reduction.torch_work import ReductionWork, can_reduce

MB = 1 << 20


class Doubling:
    """A client of two ranks with the same tensors; it keeps what came, and answers when told."""

    def __init__(self):
        self.came = queue.SimpleQueue()
        self.ended = []  # whoever has called ``done`` may hold it for a while
        self.error = None
        self.closed = threading.Event()

    def allreduce(self, buffer, dtype, *, average, done):
        assert buffer.format == "B"
        assert not buffer.readonly
        self.came.put((buffer, dtype, average, done))

    def answer(self, error=None):
        """Reduce the next round; its first element."""
        buffer, _, average, done = self.came.get(timeout=PATIENCE_S)
        values = torch.frombuffer(buffer, dtype=torch.float32)
        first = float(values[0])
        if not average and not error:
            values *= 2
        self.ended.append(done)
        done(error)
        return first

    def failed(self):
        return self.error

    def close(self):
        self.closed.set()


@pytest.fixture
def device():
    fake = ThreadDevice()
    yield fake
    fake.end()


@pytest.fixture
def client():
    return Doubling()


@pytest.fixture
def carrier(device, client):
    carrier = Carrier(client, lambda _: device)
    yield carrier
    device.go.set()
    carrier.close()


class Ended:
    """What waits for a round, and for the copy back."""

    def __init__(self, device):
        self._device = device
        self._over = threading.Event()
        self.error = None

    def __call__(self, error):
        self.error, self.mark = error, self._device.mark()
        self._over.set()

    def wait(self):
        assert self._over.wait(PATIENCE_S)
        self.mark.synchronize()

    def is_set(self):
        return self._over.is_set()


def test_nothing_is_submitted_before_its_bytes_are_there(carrier, client, device):
    tensor, ended = torch.full((1000,), 3.0), Ended(device)
    carrier.allreduce(tensor, average=False, done=ended)
    assert client.came.empty()
    device.go.set()
    assert client.answer() == 3.0
    ended.wait()
    assert (tensor == 6.0).all()


def test_rounds_are_submitted_in_the_order_of_calls(carrier, client, device):
    tensors = [torch.full((size,), float(size)) for size in (500_000, 10, 70_000, 1)]
    ends = [Ended(device) for _ in tensors]
    for tensor, ended in zip(tensors, ends, strict=True):
        carrier.allreduce(tensor, average=False, done=ended)
    device.go.set()
    assert [client.answer() for _ in tensors] == [500_000, 10, 70_000, 1]
    for tensor, ended in zip(tensors, ends, strict=True):
        ended.wait()
        assert (tensor == 2.0 * tensor.numel()).all()


def test_the_host_does_not_wait_for_the_device_and_computing_comes_first(carrier, client, device):
    """The gradient is what the device has when it comes to the call, not when the host does."""
    tensor, computed = torch.zeros(1000), threading.Event()

    def compute():
        assert computed.wait(PATIENCE_S)
        tensor.fill_(7.0)

    device.compute.put(compute)
    device.go.set()
    ended = Ended(device)
    carrier.allreduce(tensor, average=True, done=ended)
    assert client.came.empty()
    computed.set()
    assert client.answer() == 7.0
    ended.wait()


def test_a_later_copy_in_does_not_hold_back_an_earlier_copy_out(carrier, client, device):
    """Else two ranks of a host could wait for each other for ever."""
    device.go.set()
    first, ended = torch.ones(1000), Ended(device)
    carrier.allreduce(first, average=False, done=ended)
    never = threading.Event()
    device.compute.put(lambda: never.wait(PATIENCE_S))
    later = Ended(device)
    carrier.allreduce(torch.ones(1000), average=False, done=later)
    client.answer()
    ended.wait()
    assert (first == 2.0).all()
    assert not later.is_set()
    never.set()
    client.answer()
    later.wait()


def test_host_memory_is_used_again_but_never_by_two_at_once(carrier, client, device):
    device.go.set()
    for _ in range(5):
        one_round(carrier, client, device, 2 * MB)
    assert device.allocated == [2 * MB]
    both = [begun(carrier, device, 2 * MB) for _ in range(2)]
    for ended in both:
        client.answer()
        ended.wait()
    assert device.allocated == [2 * MB] * 2


def test_host_memory_is_not_used_again_before_its_sums_are_back(bounded, client, device):
    first, second, late = torch.full((MB,), 1.0), torch.full((MB,), 5.0), threading.Event()
    ends = [Ended(device), Ended(device)]
    device.back.put(lambda: late.wait(PATIENCE_S))
    bounded.allreduce(first, average=False, done=ends[0])
    client.answer()
    bounded.allreduce(second, average=False, done=ends[1])
    soon(lambda: device.back in device.awaited or not client.came.empty())
    late.set()
    client.answer()
    for ended in ends:
        ended.wait()
    assert (first == 2.0).all()
    assert (second == 10.0).all()


@pytest.fixture
def bounded(device, client):
    carrier = Carrier(client, lambda _: device, staging_max=4 * MB)
    device.go.set()
    yield carrier
    carrier.close()


def test_however_many_are_under_way_host_memory_has_a_bound(bounded, client, device):
    tensors = [torch.full((size,), float(size)) for size in (300_000, 1, 70_000, 262_144) * 10]
    ends = [Ended(device) for _ in tensors]
    for tensor, ended in zip(tensors, ends, strict=True):
        bounded.allreduce(tensor, average=False, done=ended)
    assert [client.answer() for _ in tensors] == [tensor.numel() for tensor in tensors]
    for tensor, ended in zip(tensors, ends, strict=True):
        ended.wait()
        assert (tensor == 2.0 * tensor.numel()).all()
    assert device.peak <= 4 * MB


def test_where_there_is_room_no_copy_in_waits_for_a_copy_out(bounded, client, device):
    late = threading.Event()
    device.back.put(lambda: late.wait(PATIENCE_S))
    first = begun(bounded, device, MB)
    client.answer()
    second = begun(bounded, device, MB)
    soon(lambda: not client.came.empty())
    assert device.allocated == [MB, MB]
    late.set()
    client.answer()
    for ended in (first, second):
        ended.wait()


def test_a_tensor_above_the_bound_goes_alone(bounded, client, device):
    ends = [begun(bounded, device, size) for size in (MB, 8 * MB, MB)]
    for ended in ends:
        client.answer()
        ended.wait()
    assert device.allocated == [MB, 8 * MB, MB]
    assert device.peak == 8 * MB


def test_host_memory_of_other_sizes_goes_where_room_is_needed(bounded, client, device):
    for size in (2 * MB, MB, MB, 4 * MB):
        one_round(bounded, client, device, size)
    assert device.allocated == [2 * MB, MB, 4 * MB]
    assert device.held == 4 * MB


def test_a_round_that_failed_gives_its_host_memory_back(bounded, client, device):
    for _ in range(3):
        ended = begun(bounded, device, 4 * MB)
        client.answer(ReductionError("worker 1 is lost"))
        ended.wait()
    assert device.allocated == [4 * MB]


def test_what_waits_for_room_does_not_hold_up_who_ends_a_round(bounded, client, device):
    """A callback may reduce again, and it runs in the thread that the next results come by."""
    first, second, third = (Ended(device) for _ in range(3))

    def again(error):
        bounded.allreduce(torch.ones(MB), average=False, done=third)
        first(error)

    bounded.allreduce(torch.ones(MB), average=False, done=again)
    bounded.allreduce(torch.ones(MB), average=False, done=second)
    for ended in (first, second, third):
        client.answer()
        ended.wait()


def test_what_waits_for_room_when_the_group_is_left_fails(bounded, client, device):
    under_way, waiting = begun(bounded, device, 4 * MB), ReductionWork([torch.ones(1)], timeout())
    _, _, _, done = client.came.get(timeout=PATIENCE_S)
    bounded.allreduce(waiting.result()[0], average=False, done=waiting.finish)
    bounded.close()
    with pytest.raises(ReductionError, match="this group is closed"):
        waiting.wait()
    done(ReductionError("worker 0 has left"))
    assert under_way.error
    later = ReductionWork([torch.ones(1)], timeout())
    bounded.allreduce(later.result()[0], average=False, done=later.finish)
    with pytest.raises(ReductionError, match="this group is closed"):
        later.wait()


def test_an_error_leaves_the_tensor_as_it_was_and_is_told(carrier, client, device):
    device.go.set()
    tensor, ended, error = torch.ones(1000), Ended(device), ReductionError("worker 1 is lost")
    carrier.allreduce(tensor, average=False, done=ended)
    client.answer(error)
    ended.wait()
    assert ended.error is error
    assert (tensor == 1.0).all()


def test_a_device_that_breaks_fails_the_round_and_leaves_the_group(carrier, client, device):
    """Nothing can be asked of it any more, not even to mark where it is."""
    work = ReductionWork([torch.ones(10)], timeout())
    carrier.allreduce(work.result()[0], average=False, done=work.finish)
    device.broken = True
    device.go.set()
    with pytest.raises(ReductionError, match="cannot copy a tensor: an illegal memory access"):
        work.wait()
    assert client.closed.wait(PATIENCE_S)


def test_a_device_that_breaks_before_the_sums_are_back_fails_the_round(carrier, client, device):
    device.go.set()
    work = ReductionWork([torch.ones(10)], timeout())
    carrier.allreduce(work.result()[0], average=False, done=work.finish)
    buffer, *_, done = client.came.get(timeout=PATIENCE_S)
    assert len(buffer) == 40
    device.broken = True
    done(None)
    with pytest.raises(ReductionError, match="cannot copy a tensor: an illegal memory access"):
        work.wait()
    with pytest.raises(RuntimeError, match="illegal memory access"):
        work.get_future().wait()


@pytest.mark.parametrize(
    ("setting", "most"), [(None, 512 * MB), ("", 512 * MB), ("64M", 64 * MB), ("1048577", MB + 1)]
)
def test_the_bound_is_a_setting(setting, most):
    environ = {} if setting is None else {"TRAINSHED_REDUCTION_MAX_STAGING": setting}
    assert staging_max(environ) == most


def test_a_bound_that_is_no_size_is_refused():
    with pytest.raises(ReductionError, match=r"MAX_STAGING must be bytes, .* got 'much'"):
        staging_max({"TRAINSHED_REDUCTION_MAX_STAGING": "much"})


def test_on_the_host_a_tensors_own_memory_is_what_is_sent(client):
    carrier, tensor = Carrier(client), torch.full((1000,), 2.0)
    work = ReductionWork([tensor], timeout())
    carrier.allreduce(tensor, average=False, done=work.finish)
    assert not work.is_completed()
    assert client.answer() == 2.0
    assert work.wait()
    assert (tensor == 4.0).all()
    assert work.get_future().wait()[0] is tensor
    carrier.close()


def test_a_work_that_failed_raises_the_error_itself_and_its_future_tells_it():
    error = ReductionError("worker 3 is lost")
    work = ReductionWork([torch.ones(1)], timeout())
    work.finish(error)
    with pytest.raises(ReductionError) as raised:
        work.wait()
    assert raised.value is error
    assert (work.is_completed(), work.is_success(), work.exception()) == (True, False, error)
    with pytest.raises(RuntimeError, match="ReductionError: worker 3 is lost"):
        work.get_future().wait()


def test_a_work_is_waited_for_no_longer_than_its_patience():
    work = ReductionWork([torch.ones(1)], timeout(seconds=0.01))
    with pytest.raises(ReductionError, match="has not ended within"):
        work.wait()
    with pytest.raises(ReductionError, match="has not ended within"):
        work.wait(timeout(seconds=0.02))
    work.finish(None)
    assert work.wait()


@pytest.mark.parametrize(
    ("tensor", "goes"),
    [
        (torch.ones(3), True),
        (torch.ones(3, dtype=torch.bfloat16), True),
        (torch.ones(3, dtype=torch.float16), True),
        (torch.ones(()), True),
        (torch.ones(3, 4)[1:], True),
        (torch.ones(3, dtype=torch.float64), False),
        (torch.ones(3, dtype=torch.int32), False),
        (torch.ones(0), False),
        (torch.ones(3, 4).t(), False),
        (torch.ones(9)[::2], False),
        (torch.ones(3, 3).to_sparse(), False),
        (torch.ones(3, device="meta"), False),
    ],
)
def test_what_reducers_can_sum(tensor, goes):
    assert can_reduce(tensor) is goes


def begun(carrier, device, nbytes):
    """An all-reduce of so many bytes; how it ends."""
    ended = Ended(device)
    carrier.allreduce(torch.ones(nbytes // 4), average=False, done=ended)
    return ended


def one_round(carrier, client, device, nbytes):
    ended = begun(carrier, device, nbytes)
    client.answer()
    ended.wait()


def timeout(seconds=PATIENCE_S):
    return timedelta(seconds=seconds)
