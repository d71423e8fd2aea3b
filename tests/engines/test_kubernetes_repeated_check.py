"""The check of a cluster goes on, whatever one check meets."""

import pytest

from trainshed.engines.kubernetes.api.errors import ApiAway
from trainshed.engines.kubernetes.repeated_check import RepeatedCheck
from trainshed.engines.kubernetes.start_check import ClusterFacts

FACTS = ClusterFacts(namespace="training", claim="spool")


@pytest.mark.parametrize("error", [ApiAway("no answer"), AttributeError("an answer is a list")])
def test_a_check_that_fails_is_repeated(error):
    answers, reported = [error, FACTS], []

    def read_facts():
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    check = RepeatedCheck(read_facts, is_denied=lambda: False, on_facts=reported.append)
    check.check()
    assert (check.facts, reported) == (None, [])
    check.check()
    assert (check.facts, reported) == (FACTS, [FACTS])
