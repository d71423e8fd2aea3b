"""A supervisor that may open few files fails at once, or never for the want of them."""

import pytest

from engines.attempts import KEY, ended, engine_at, marked, order, until
from engines.support import FOREVER
from trainshed.engines.local.attempts import start
from trainshed.model.attempt import Phase

ALLOWED = 96


@pytest.fixture
def engine(root, monkeypatch):
    """An engine whose supervisors may open few files."""
    real = start.supervisor_argv
    monkeypatch.setattr(
        start,
        "supervisor_argv",
        lambda word: ("/bin/sh", "-c", f'ulimit -n {ALLOWED}; exec "$@"', "sh", *real(word)),
    )
    return engine_at(root)


@pytest.mark.parametrize("count", [10, 44, 60])
def test_replicas_are_started_only_where_files_are_left_for_all_that_follows(engine, mark, count):
    engine.launch(KEY, marked(mark, *[FOREVER] * count), ())
    observation = until(engine, Phase.READY, Phase.ENDED)
    if observation.phase is Phase.ENDED:
        assert (
            observation.fault
            == f"cannot start {count} processes: the limit of open files is too low; "
            "raise it (ulimit -n, or LimitNOFILE of the server's systemd unit)"
        )
        return
    engine.stop(KEY, order(60.0))
    observation = ended(engine)
    assert observation.fault is None
    assert observation.outcome.interrupted
