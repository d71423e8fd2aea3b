"""An end says how it came about: the signal, the want of memory, the most that was used."""

import signal
from dataclasses import replace

import pytest

from engines.attempts import KEY, ended, engine_at, marked, texts
from engines.support import FOREVER, plan_of, python_replica
from trainshed.model.roles import Role

MIB = 1 << 20
#: Ends by itself where nobody limits it.
HOG = "data = [bytearray(1 << 20) for _ in range(512)]"


def test_a_replica_that_outgrows_its_limit_is_named_with_the_memory_it_used(root, mark):
    hog = replace(python_replica(Role.PRIMARY, 0, HOG), memory_bytes_max=64 * MIB)
    other = python_replica(Role.WORKER, 0, FOREVER)
    engine = engine_at(root)
    engine.launch(KEY, plan_of([hog, other], mark), ())
    outcome = ended(engine).outcome
    if any("not enforced" in text for text in texts(root, "service")):
        pytest.skip("no memory cgroup may be made here: run as root, with a writable cgroup2")
    assert outcome.exit_code == 128 + signal.SIGKILL
    assert outcome.message.startswith(
        "master-replica-0 was killed by SIGKILL: out of memory at its limit of 64 MiB (peak "
    )
    assert [replica.oom for replica in outcome.replicas] == [True, False]
    assert outcome.replicas[0].peak_memory_bytes <= 64 * MIB
    assert not outcome.replicas[0].killed, "not by us"


def test_a_program_that_dies_of_its_age_is_told_what_helps(root, mark):
    """In the log and in the end; the line that names the cause is not the last one."""
    code = "import collections\ncollections.Mapping  # noqa"
    engine = engine_at(root)
    engine.launch(KEY, marked(mark, code), ())
    outcome = ended(engine).outcome
    hint = "module 'collections' has no attribute 'Mapping' (collections has no abstract"
    assert hint in outcome.message
    assert hint in outcome.last_words
    assert any("import them from collections.abc" in text for text in texts(root, "service"))


def test_a_signal_is_named_with_the_last_words(root, mark):
    code = "import os, sys; print('bad weights', file=sys.stderr); os.kill(os.getpid(), 11)"
    engine = engine_at(root)
    engine.launch(KEY, marked(mark, code), ())
    outcome = ended(engine).outcome
    assert outcome.message.startswith("master-replica-0 was killed by SIGSEGV")
    assert outcome.message.endswith(" s: bad weights")
    assert outcome.last_words == "bad weights"
    assert outcome.replicas[0].signal == signal.SIGSEGV
