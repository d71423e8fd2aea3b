"""What the engines are told of a waiting job when one of them is chosen for it."""

from datetime import UTC, datetime
from types import SimpleNamespace

import pytest

from trainshed.controller.choosing import choosing
from trainshed.engines.base import PlacedBy
from trainshed.model.labels import OfferedEngine
from trainshed.model.resources import Demand, GroupDemand, JobDemand
from trainshed.model.roles import Role
from trainshed.store.records.jobs import WaitingJob

DAY = 86_400.0


class Engines:
    """Two engines, which judge nothing and remember what they were asked."""

    are_several = True
    first = "a"

    def __init__(self):
        self.needs = []

    def make_judge(self, needs, _never):
        self.needs.append(needs)
        return lambda _name: None

    def list_offered(self):
        return (OfferedEngine(name="a"), OfferedEngine(name="b"))

    def traits_of(self, _name):
        return SimpleNamespace(places=PlacedBy.SERVER)


def waiting(running_s_max):
    groups = (GroupDemand(role=Role.PRIMARY, count=1, each=Demand(vcpus=1, memory_gb=1.0)),)
    return WaitingJob(
        uid=1,
        project="p",
        priority=0,
        create_time=datetime(2026, 1, 1, tzinfo=UTC),
        demand=JobDemand(region=None, groups=groups),
        running_s_max=running_s_max,
        version=1,
        attempt=1,
        ran_s=3600.0,
    )


@pytest.mark.parametrize(("limit_s", "sets_time"), [(7 * DAY, False), (DAY, True), (None, True)])
def test_engines_may_permit_less_time_than_the_servers_default_but_not_than_a_jobs(
    limit_s, sets_time
):
    engines = Engines()
    choose = choosing(engines, lambda _: None, None, running_s_default=7 * DAY)
    assert choose(waiting(limit_s)).name == "a"
    (needs,) = engines.needs
    assert needs.sets_time is sets_time
    assert needs.running_s_max == (None if limit_s is None else limit_s - 3600.0)
