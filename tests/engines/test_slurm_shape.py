"""Which replicas share a shape, and what each of them gets then."""

import pytest

from trainshed.engines.slurm.shape import ShapeRules, roles_of, shape_of
from trainshed.model.resources import Demand, GroupDemand, JobDemand
from trainshed.model.roles import Role

T4 = "NVIDIA_TESLA_T4"
CHIEF, WORKER, EVALUATOR = Role.PRIMARY, Role.WORKER, Role.EVALUATOR


def shape(*rows, **rules):
    """Rows: role, count, CPUs, GB, GPUs."""
    groups = tuple(
        GroupDemand(
            role=role,
            count=count,
            each=Demand(vcpus=cpus, memory_gb=gb, gpu_type=T4 if gpus else None, gpu_count=gpus),
        )
        for role, count, cpus, gb, gpus in rows
    )
    demand = JobDemand(region=None, groups=groups)
    return shape_of(roles_of(demand), demand, ShapeRules(**rules))


def parts(shape):
    return [(part.count, part.need.cpus, part.need.memory_mib // 1024) for part in shape.parts]


@pytest.mark.parametrize(
    ("rows", "waste_max", "expected"),
    [
        # 8 of 4 * 16 CPUs are wasted: an eighth
        ([(CHIEF, 1, 8, 8.0, 0), (WORKER, 3, 16, 8.0, 0)], 0.25, [(4, 16, 8)]),
        ([(CHIEF, 1, 8, 8.0, 0), (WORKER, 3, 16, 8.0, 0)], 0.1, [(1, 8, 8), (3, 16, 8)]),
        # CPUs alone would do; the memory would be wasted
        ([(CHIEF, 1, 4, 64.0, 0), (WORKER, 1, 4, 8.0, 0)], 0.25, [(1, 4, 64), (1, 4, 8)]),
        # no replica gets GPUs that it did not request, however little they are of all
        ([(CHIEF, 1, 4, 8.0, 0), (WORKER, 30, 4, 8.0, 1)], 0.9, [(1, 4, 8), (30, 4, 8)]),
        # each step of the joining counts all that it joins
        (
            [(CHIEF, 1, 8, 1.0, 0), (WORKER, 1, 7, 1.0, 0), (EVALUATOR, 1, 1, 1.0, 0)],
            0.25,
            [(2, 8, 1), (1, 1, 1)],
        ),
    ],
)  # fmt: skip
def test_replicas_that_differ_little_get_one_shape(rows, waste_max, expected):
    assert parts(shape(*rows, waste_max=waste_max)) == expected


def test_a_joined_part_has_the_positions_of_all_its_replicas():
    rows = [
        (CHIEF, 1, 4, 4.0, 1),
        (WORKER, 3, 4, 4.0, 1),
        (EVALUATOR, 1, 4, 4.0, 0),
    ]
    joined = shape(*rows, waste_max=0.25)
    assert [(part.first, part.count, part.role) for part in joined.parts] == [
        (0, 4, WORKER),
        (4, 1, EVALUATOR),
    ]
    assert joined.parts[0].other_role_count == 1


def test_memory_beyond_the_limit_for_a_cpu_takes_more_cpus():
    one = (CHIEF, 1, 4, 15.0, 0)
    assert parts(shape(one, memory_per_cpu_max=2000)) == [(1, 8, 15)]
    assert parts(shape(one, memory_per_cpu_max=4000)) == [(1, 4, 15)]
    assert parts(shape(one)) == [(1, 4, 15)]
