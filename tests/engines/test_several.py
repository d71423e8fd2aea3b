"""The engines of a server, looked up by name or by an attempt."""

from dataclasses import replace

import pytest

from trainshed.engines import several
from trainshed.engines.base import JobNeeds, NodeLocation, PlacedBy, Traits
from trainshed.engines.several import Engines, ServedEngine
from trainshed.engines.waits import QueueWaits
from trainshed.model.attempt import AttemptKey, Observation, Phase
from trainshed.model.explanation import Explanation, Reason
from trainshed.model.resources import JobDemand, Node
from trainshed.model.stopping import StopOrder, StopReason
from trainshed.testing.fake_engine import FakeEngine

ONE, TWO, OLD = AttemptKey(1, 1), AttemptKey(2, 1), AttemptKey(3, 1)
STOP = StopOrder(grace_s=1.0, reason=StopReason.CANCEL, message="x")
NEVER = Explanation(reason=Reason.NO_SUCH_NODE, message="at most 4 nodes")
NAMES = {ONE: "a", TWO: "b", OLD: ""}


class Broken(FakeEngine):
    """Fails in whatever it is asked."""

    def fleet(self):
        raise RuntimeError("broken")

    def health(self):
        raise RuntimeError("broken")

    def observe(self, _keys):
        raise RuntimeError("broken")


def engines_of(served, failed=None):
    engines = Engines({name: ServedEngine(engine=one) for name, one in served.items()}, failed)
    engines.set_lookup(lambda keys: {key: NAMES[key] for key in keys})
    return engines


@pytest.fixture
def pair():
    return {"a": FakeEngine([Node(name="n")]), "b": FakeEngine([Node(name="n")])}


def test_each_attempt_is_asked_of_its_engine_and_one_that_names_none_of_the_first(pair):
    engines = engines_of(pair)
    for key in (ONE, TWO, OLD):
        engines.get_by_attempt(key).stop(key, STOP)
    assert [set(one.stops) for one in pair.values()] == [{ONE, OLD}, {TWO}]
    assert {observation.key for observation in engines.observe([ONE, TWO, OLD])} == {ONE, TWO, OLD}
    assert [engines.list_nodes(name) for name in pair] == [
        [Node(name="n", engine=name)] for name in pair
    ]


def test_an_engine_that_fails_takes_the_others_not_down():
    engines = engines_of({"a": Broken([]), "b": FakeEngine([Node(name="n")])})
    assert engines.list_nodes("b") == [Node(name="n", engine="b")]
    phases = {observation.key: observation.phase for observation in engines.observe([ONE, TWO])}
    assert phases[ONE] is Phase.UNKNOWN
    assert engines.list_nodes("a") is None
    assert engines.check_healths()["a"].reason is Reason.ENGINE_AWAY
    assert engines.check_healths()["b"] is None


def test_an_engine_that_could_not_be_made_is_told_and_its_attempts_are_left_alone(pair):
    engines = engines_of({"a": pair["a"]}, {"b": NEVER})
    assert engines.check_healths()["b"] == NEVER
    assert engines.are_several
    assert [observation.phase for observation in engines.observe([TWO])] == [Phase.UNKNOWN]
    with pytest.raises(OSError, match="without the engine b: at most 4 nodes"):
        engines.get_by_attempt(TWO).stop(TWO, STOP)
    assert not pair["a"].stops


def test_attempts_of_an_engine_that_has_no_table_any_more_are_not_taken_for_anothers(pair):
    engines = engines_of({"a": pair["a"]})
    (observation,) = engines.observe([TWO])
    assert observation.phase is Phase.UNKNOWN
    assert observation.waits.message == "this server runs without the engine b"
    with pytest.raises(OSError, match="without the engine b"):
        engines.get_by_attempt(TWO).stop(TWO, STOP)


def test_an_attempt_whose_engine_was_forgotten_to_make_room_is_not_taken_for_anothers(
    pair, monkeypatch
):
    monkeypatch.setattr(several, "_REMEMBERED_MAX", 1)
    observed_keys = []
    monkeypatch.setattr(pair["a"], "observe", lambda keys: observed_keys.extend(keys) or [])
    engines = engines_of(pair)
    engines.get_by_attempt(TWO).stop(TWO, STOP)
    engines.observe([TWO, ONE])
    assert observed_keys == [ONE]


def test_since_when_it_is_away_stays_until_it_is_back(pair):
    engines = engines_of(pair)
    pair["b"].unreachable = True
    since = engines.check_health("b").since_s
    assert since is not None
    assert engines.check_health("b").since_s == since
    pair["b"].unreachable = False
    assert engines.check_health("b") is None


def test_what_engines_object_and_what_nodes_do():
    theirs = FakeEngine([])
    theirs.traits = Traits(reach=NodeLocation.ANY, python="python3", places=PlacedBy.ENGINE)
    theirs.judge = lambda needs: NEVER if needs.wants.get("trainshed-q") == "low" else None
    served = {
        "a": ServedEngine(engine=FakeEngine([])),
        "b": ServedEngine(engine=theirs, labels={"trainshed-q": "low"}),
    }
    needs = JobNeeds(demand=JobDemand(region=None, groups=()))
    judged = []

    def never(demand):
        judged.append(demand.engine)

    assert Engines(served).make_judge(needs, never)("a") is None
    assert Engines(served).make_judge(needs, never)("b") == NEVER
    own = JobNeeds(demand=needs.demand, wants={"trainshed-q": "high"})
    assert Engines(served).make_judge(own, never)("b") is None
    assert judged == ["a"]


def test_the_nearest_engine_is_the_one_on_the_servers_machine_else_the_first(pair):
    assert engines_of(pair).nearest is pair["a"]
    pair["b"].traits = replace(pair["b"].traits, reach=NodeLocation.THIS_MACHINE)
    assert engines_of(pair).nearest is pair["b"]
    assert list(engines_of(pair)) == list(pair.values())


def test_one_that_does_not_close_does_not_keep_the_others_from_it(pair):
    closed = []
    pair["a"].close = lambda: 1 / 0
    pair["b"].close = lambda: closed.append("b")
    engines_of(pair).close()
    assert closed == ["b"]


def test_waits_in_queues_are_measured_once_from_the_first_hand_over():
    now = [0.0]
    waits = QueueWaits(lambda: now[0])
    waits.start_wait(ONE)
    now[0] = 2.0
    waits.start_wait(ONE)
    waits.record("a", [Observation(key=ONE, phase=Phase.WAITING)])
    now[0] = 5.0
    for _ in range(2):
        waits.record("a", [Observation(key=ONE, phase=Phase.READY)])
    assert waits.totals() == {"a": (1, 5.0)}


def test_an_engine_that_was_there_before_its_table_is_still_known_by_its_kind(pair):
    pair["a"].name, pair["b"].name = "local", "b"
    engines = engines_of(pair)
    engines.set_lookup(lambda keys: dict.fromkeys(keys, "local"))
    assert engines.name_of(OLD) == "a"
    assert engines.find_by_name("local") is pair["a"]
