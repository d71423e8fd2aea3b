"""Sums in the order of ranks, in 32 bits and rounded once, bit for bit as PyTorch makes them."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from reduction.crew import TORCH, drawn, expected, same_bits
from trainshed_trainer.reduction import sums
from trainshed_trainer.reduction.frames import Dtype

HALVES = (Dtype.FLOAT16, Dtype.BFLOAT16)


def summed(tensors, *, average):
    rows = [tensor.view(torch.uint8).numpy() for tensor in tensors]
    out = np.empty_like(rows[0])
    dtype = next(kind for kind, name in TORCH.items() if name == tensors[0].dtype)
    sums.add(dtype, rows, out, average=average)
    return torch.from_numpy(out).view(tensors[0].dtype)


def check(tensors, *, average):
    """The same bits as PyTorch's; a NaN is a NaN whatever its payload, on which PyTorch differs."""
    total, right = summed(tensors, average=average), expected(tensors, average=average)
    nan = right.isnan()
    assert torch.equal(total.isnan(), nan)
    assert same_bits(total[~nan], right[~nan])


@pytest.mark.parametrize("dtype", TORCH.values())
@pytest.mark.parametrize("world", [1, 2, 3, 5, 8])
def test_many_magnitudes(dtype, world):
    for count, average in itertools.product(
        (1, 7, 1000, sums.BLOCK - 1, sums.BLOCK, 2 * sums.BLOCK + 3), (False, True)
    ):
        check([drawn(rank, count, dtype) for rank in range(world)], average=average)


@pytest.mark.parametrize("dtype", HALVES)
def test_every_value_of_sixteen_bits_beside_every_special_one(dtype):
    """All 65536 of them: subnormals, infinities, NaN of both signs, the largest."""
    every = torch.arange(1 << 16, dtype=torch.int32).to(torch.uint16).view(TORCH[dtype])
    info = torch.finfo(TORCH[dtype])
    specials = [
        0.0,
        -0.0,
        info.max,
        -info.max,
        info.tiny,
        info.eps,
        1.0,
        float("inf"),
        float("nan"),
    ]
    for special, average in itertools.product(specials, (False, True)):
        other = torch.full_like(every, special)
        check([every, other], average=average)
        check([other, every, every], average=average)
    check([every], average=False)


def test_every_sum_of_halves_rounds_to_even():
    """Ties of bfloat16 lie where the lower half of a float32 is 0x8000."""
    ones = torch.tensor([1.0, 1.0078125, 256.0, 257.0], dtype=torch.bfloat16)
    ties = torch.tensor([0.00390625, 0.00390625, 1.0, 1.0], dtype=torch.bfloat16)
    check([ones, ties], average=False)


@given(st.data())
def test_any_bits_at_all(data):
    dtype = data.draw(st.sampled_from(Dtype))
    world, count = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 20))
    nbytes = count * dtype.itemsize
    rows = [bytearray(data.draw(st.binary(min_size=nbytes, max_size=nbytes))) for _ in range(world)]
    tensors = [torch.frombuffer(row, dtype=TORCH[dtype]) for row in rows]
    check(tensors, average=data.draw(st.booleans()))


def test_the_order_of_the_ranks_is_seen_in_the_bits():
    """Otherwise the tests above would pass for any order."""
    tensors = [drawn(rank, 1000, torch.float32) for rank in range(3)]
    assert not same_bits(expected(tensors), expected(tensors[::-1]))


def test_rows_are_left_as_they_are_and_the_result_may_lie_anywhere():
    tensors = [drawn(rank, 1000, torch.bfloat16) for rank in range(3)]
    before = [tensor.clone() for tensor in tensors]
    summed(tensors, average=True)
    assert all(same_bits(tensor, was) for tensor, was in zip(tensors, before, strict=True))
