"""The Slurm engine keeps the contract of engines, on a real cluster."""

import pytest

from slurm.world import SlurmWorld
from trainshed.testing.program_contract import ProgramContract

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


class TestSlurmEngine(ProgramContract):
    #: The few that no other test of the cluster shows; each takes seconds.
    QUICK = frozenset(
        {
            "test_it_is_ready_as_long_as_it_runs_then_ended_for_ever",
            "test_it_starts_once_from_wherever_it_is_launched",
            "test_what_was_stopped_before_never_starts",
            "test_what_is_lost_is_gone_and_stays_so",
            "test_what_cannot_be_seen_is_unknown_until_it_can",
            "test_what_lives_is_known_and_what_is_left_is_found",
        }
    )

    @pytest.fixture
    def world(self, cluster, tmp_path):
        world = SlurmWorld(cluster, tmp_path)
        yield world
        world.close()
