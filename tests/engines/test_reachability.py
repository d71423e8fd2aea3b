"""Whether a cluster answers: what is said of a silence, and how often."""

import logging

from trainshed.engines.reachability import Reachability
from trainshed.model.explanation import Reason


def test_a_silence_is_told_once_with_its_first_reason(caplog):
    cluster = Reachability("The cluster")
    assert (cluster.answered_s, cluster.explain()) == (None, None)
    assert cluster.note_failure("refused")
    assert not cluster.note_failure("timed out")
    explanation = cluster.explain()
    assert explanation.reason is Reason.ENGINE_AWAY
    assert explanation.message.startswith("The cluster has not answered since 20")
    assert explanation.message.endswith("Z: refused")
    assert [row.getMessage() for row in caplog.records if row.levelno == logging.WARNING] == [
        "The cluster does not answer: refused; retrying"
    ]


def test_an_answer_ends_a_silence(caplog):
    cluster = Reachability("The cluster")
    assert not cluster.note_answer()
    assert cluster.answered_s is not None
    cluster.note_failure("refused")
    assert cluster.note_answer()
    assert cluster.explain() is None
    assert caplog.records[-1].getMessage() == "The cluster answers again"
    assert cluster.note_failure("gone")
    assert cluster.explain().message.endswith("gone")
