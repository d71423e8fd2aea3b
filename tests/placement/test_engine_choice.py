"""Which engine a job goes to."""

from trainshed.model.explanation import Explanation, Reason
from trainshed.model.labels import OfferedEngine, wishes
from trainshed.placement.engine_choice import choose

AWAY = Explanation(reason=Reason.ENGINE_AWAY, message="does not answer")
NEVER = Explanation(reason=Reason.NO_SUCH_NODE, message="at most 4 nodes.")
HERE = OfferedEngine(name="local", regions=("us-central1",))
THERE = OfferedEngine(name="slurm")
GONE = OfferedEngine(name="slurm", away=AWAY)


def fine(_name):
    return None


def test_the_first_that_has_no_objection_in_the_configured_order():
    assert choose(None, "us-central1", [HERE, THERE], fine).engine == "local"
    assert choose(None, None, [THERE, HERE], fine).engine == "slurm"
    choice = choose(None, None, [HERE, THERE], {"local": NEVER}.get)
    assert choice.engine == "slurm"
    assert choice.sentence == "Goes to the engine slurm; passed over: local (at most 4 nodes)."


def test_regions_count_unless_the_job_names_its_engine():
    assert choose(None, "europe-west4", [HERE, THERE], fine).engine == "slurm"
    assert choose("local", "europe-west4", [THERE, HERE], fine).engine == "local"


def test_what_no_engine_can_ever_hold_is_refused_in_the_words_of_each():
    both = choose(None, None, [HERE, THERE], {"local": NEVER, "slurm": NEVER}.get)
    assert both.engine is None
    assert both.refusal.message == "local (at most 4 nodes); slurm (at most 4 nodes)"
    assert choose("local", None, [HERE, THERE], {"local": NEVER}.get).refusal == NEVER
    assert choose(None, None, [THERE], {"slurm": NEVER}.get).refusal == NEVER


def test_a_name_that_no_engine_has():
    why = choose("moon", None, [HERE, THERE], fine).refusal
    assert "moon" in why.message
    assert "local, slurm" in why.message


def test_an_engine_that_is_away_is_the_last_choice_and_still_one():
    assert choose(None, None, [GONE, HERE], fine).engine == "local"
    choice = choose(None, None, [GONE, HERE], {"local": NEVER}.get)
    assert choice.engine == "slurm"
    assert [one.engine for one in choice.passed] == ["local"]
    assert choose("slurm", None, [GONE, HERE], fine).engine == "slurm"
    assert choose(None, None, [GONE], fine).sentence == ""


def test_wishes_are_labels_with_our_beginning_and_the_engines_are_their_defaults():
    labels = {"team": "x", "trainshed-slurm-qos": "high"}
    of_engine = {"trainshed-slurm-qos": "low", "trainshed-slurm-account": "a"}
    assert wishes(labels, of_engine) == {
        "trainshed-slurm-qos": "high",
        "trainshed-slurm-account": "a",
    }
    assert wishes(labels) == {"trainshed-slurm-qos": "high"}


def test_where_an_engine_is_chosen_nothing_is_refused():
    assert choose(None, None, [THERE], fine).refusal is None
