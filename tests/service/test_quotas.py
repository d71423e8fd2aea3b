"""Quotas with what is in use of them."""

from types import SimpleNamespace

import pytest

from placement.support import T4, V100, demand
from trainshed.placement.jobs import QuotaRule
from trainshed.service.jobs.quotas import QuotaUse, list_quotas


def holding(project, gpus, gpu_type=T4, region="us-central1"):
    job_demand = demand(gpus, gpu_type=gpu_type, region=region)
    return SimpleNamespace(project=project, demand=job_demand)


def listed(rules=(), holdings=(), project=None):
    store = SimpleNamespace(holding=lambda: holdings)
    return [
        (use.project, use.region, use.accelerator, use.limit, use.in_use, use.jobs)
        for use in list_quotas(store, rules, project)
    ]


US = "us-central1"
EACH = QuotaRule(accelerator=T4, limit=4)
OWN = QuotaRule(accelerator=T4, limit=8, project="big")


@pytest.mark.parametrize(
    ("rules", "holdings", "project", "rows"),
    [
        ((), (), None, []),
        ((EACH,), (), None, [("*", "*", T4, 4, 0, 0)]),
        ((EACH,), (), "p", [("p", "*", T4, 4, 0, 0)]),
        ((EACH, OWN), (), "p", [("p", "*", T4, 4, 0, 0)]),
        ((EACH, OWN), (), "big", [("big", "*", T4, 8, 0, 0)]),
        ((EACH, OWN), (), None, [("*", "*", T4, 4, 0, 0), ("big", "*", T4, 8, 0, 0)]),
        (
            (EACH,),
            (holding("p", 2), holding("p", 1), holding("q", 4)),
            None,
            [("*", "*", T4, 4, 0, 0), ("p", US, T4, 4, 3, 2), ("q", US, T4, 4, 4, 1)],
        ),
        (
            (EACH,),
            (holding("p", 2), holding("q", 4)),
            "p",
            [("p", "*", T4, 4, 0, 0), ("p", US, T4, 4, 2, 1)],
        ),
        ((), (holding("p", 2, V100, None),), "p", [("p", "", V100, None, 2, 1)]),
        (
            (QuotaRule(accelerator=T4, limit=2, project="p", region=US),),
            (holding("p", 2),),
            "p",
            [("p", US, T4, 2, 2, 1)],
        ),
    ],
)
def test_each_accelerator_has_its_limit_and_its_use(rules, holdings, project, rows):
    assert listed(rules, holdings, project) == rows


def test_a_job_without_gpus_uses_no_quota():
    assert listed((), (holding("p", 0),)) == []


def test_a_use_names_its_fields():
    [use] = list_quotas(SimpleNamespace(holding=lambda: [holding("p", 1)]), (), "p")
    assert use == QuotaUse(project="p", region=US, accelerator=T4, limit=None, in_use=1, jobs=1)
