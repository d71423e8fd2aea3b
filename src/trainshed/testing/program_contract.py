"""The tests for engines that run real programs; see ``engine_contract``."""
# ruff: noqa: S101 - tests by name, made of asserts and expected numbers

import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path
from typing import Final

import pytest

from trainshed.engines.base import Engine, ReplicaShape
from trainshed.engines.capabilities import SupportsUsage
from trainshed.model.attempt import AttemptKey, Phase
from trainshed.model.launch_plan import ReplicaPlan
from trainshed.model.roles import Role
from trainshed.testing.engine_contract import EngineContract
from trainshed.testing.engine_steps import (
    FINAL,
    ended,
    eventually,
    launch,
    living,
    new_key,
    order,
    place_of,
    ready,
    run,
    until,
)
from trainshed.testing.engine_world import WAITS, FakeProgram, World

#: The umask of isolated programs, whatever the umask of the server.
_STRICTEST_UMASK: Final = "0077"
#: The umasks of programs in containers: that of container runtimes, and one that lets the server's
#: group write.
_CONTAINER_UMASKS: Final = frozenset({"0022", "0002"})

#: Code that waits until all three programs of its gang have started.
_ALL_STARTED: Final = "while [ $(wc -l < $STARTED) -lt 3 ]; do sleep 0.02; done; sleep 0.2"
_ENDS: Final = 'touch "$STARTED.over"'
_SAVES: Final = 'while [ ! -e "$STARTED.over" ]; do sleep 0.02; done; sleep 0.3'


class ProgramContract(EngineContract):
    """The tests for engines that run real programs."""

    def test_a_program_finds_what_its_plan_says_and_no_secret(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("TRAINSHED_TOKEN", "hush")
        monkeypatch.setenv("UNSET", "leaks")
        code = (
            'echo "$KIT|$0|$1|$2|$#"; pwd; readlink /proc/self/fd/0; umask; echo "$UNSET"\n'
            'env | grep -c hush; echo "$TRAINSHED_JOB|$TRAINSHED_ATTEMPT|$TRAINSHED_TASK"\n'
            'report="$TRAINSHED_PROGRESS_FILE"; mkdir -p "${report%/*}"\n'
            'echo \'{"step": 7, "total": 9, "loss": 0.5}\' > "$report"'
        )
        engine, key = world.engine(), AttemptKey(new_key().uid, 3)
        plan = world.plan(key, FakeProgram())
        work = engine.sight(key, [ReplicaShape(Role.PRIMARY, 0)]).work
        if not engine.traits.has_own_work_folders:
            Path(work).mkdir(parents=True)
        argv = ("/bin/sh", "-c", code, "a b", "'\"$KIT\\", "")
        replica = _replace_program(plan.primary, argv, {"KIT": "as 'it' is\n=$HOME"})
        plan = replace(plan, replicas=(replica,), cwd=work, unset_env=("UNSET",))
        engine.launch(key, plan, place_of(engine, plan))
        assert ended(engine, key).exit_code == 0
        first, second, folder, stdin, umask, unset, secrets, contract = _texts(world, key)
        assert [first, second] == ["as 'it' is", "=$HOME|a b|'\"$KIT\\||2"]
        assert folder == work or (replica.container and folder.startswith("/"))
        assert stdin == "/dev/null"
        umasks = _CONTAINER_UMASKS if replica.container else {_read_umask(), _STRICTEST_UMASK}
        assert umask in umasks
        assert [unset, secrets, contract] == ["", "0", f"{key}|3|primary-0"]
        _check_usage(engine, key)

    @pytest.mark.parametrize(
        ("role", "code"),
        [
            *((role, 0) for role in (Role.PARAMETER_SERVER, Role.EVALUATOR, Role.REDUCER)),
            (Role.PARAMETER_SERVER, 7),
        ],
    )
    def test_the_primary_or_the_first_failure_decides_and_waiting_replicas_are_stopped(
        self, world: World, role: Role, code: int
    ) -> None:
        """A worker that has already ended with 0 counts as successful."""
        primary = FakeProgram(code=_ALL_STARTED, waits=bool(code))
        outcome = run(
            world, primary, FakeProgram(exit_code=code), FakeProgram(waits=True, role=role)
        )
        assert (outcome.exit_code, outcome.interrupted) == (code, False)
        assert ("worker-0" if code else "primary-0") in outcome.message
        assert [replica.stopped_by_us for replica in outcome.replicas] == [bool(code), False, True]

    def test_a_replica_that_saves_after_the_end_of_the_primary_gets_time(
        self, world: World
    ) -> None:
        """The time is at least a second; the test repeats, because a busy machine may use it up."""

        def has_saved() -> bool:
            outcome = run(world, FakeProgram(code=_ENDS), FakeProgram(code=_SAVES))
            assert (outcome.exit_code, outcome.interrupted) == (0, False)
            return not outcome.replicas[1].stopped_by_us

        eventually(has_saved, "a worker ends by itself")

    @pytest.mark.parametrize("is_lost", [False, True])
    def test_nothing_is_left_whatever_it_has_forked(self, world: World, *, is_lost: bool) -> None:
        daemon = "(trap '' TERM; setsid sh -c 'setsid sleep 600 & echo ready; wait' &)"
        engine, key = ready(world, FakeProgram(waits=True, code=daemon))
        eventually(lambda: "ready" in _texts(world, key), "the daemon runs")
        if is_lost:
            world.lose(key)
        else:
            engine.stop(key, order(0.2))
        until(engine, key, *FINAL)
        assert living(engine, key) == []

    def test_a_notice_says_why_and_until_when_before_the_signal(self, world: World) -> None:
        """The lines that a replica prints after the notice are stored like all others."""
        code = "trap 'cat \"$TRAINSHED_NOTICE_FILE\"; echo; seq 10000; exit 0' TERM"
        engine, key = ready(world, FakeProgram(waits=True, code=code))
        before = time.time()
        engine.stop(key, order(40.0))
        assert ended(engine, key).interrupted
        first, *last = _texts(world, key)
        assert last == [str(number) for number in range(1, 10_001)]
        notice = json.loads(first)
        assert (notice["reason"], notice["message"]) == ("cancel", "It was cancelled.")
        assert before + 39.0 < notice["until"] < time.time() + 41.0

    def test_every_line_is_kept_once_and_in_order(self, world: World) -> None:
        """Includes the last lines before the end; time stamps ascend over a job's attempts."""
        engine, first = world.engine(), new_key()
        expected, stamps = [str(number) for number in range(1, 10_001)], list[int]()
        for key in (first, AttemptKey(first.uid, 2)):
            launch(world, engine, key, FakeProgram(code="seq 10000; printf 'a\\377b' >&2"))
            assert ended(engine, key).exit_code == 0
            assert _texts(world, key) == expected
            assert _texts(world, key, "stderr") == ["a\ufffdb"]
            stamps += [line.stamp_ns for line in world.lines(key)]
        assert all(earlier < later for earlier, later in pairwise(stamps))

    def test_a_launch_that_is_killed_anywhere_starts_it_once(self, world: World) -> None:
        engine, key = world.engine(), new_key()
        for pause_s in (0.0, 0.001, 0.003, 0.01, 0.03):
            server = get_context("fork").Process(
                target=launch, args=(world, world.engine(), key, WAITS)
            )
            server.start()
            time.sleep(pause_s)
            server.kill()
            server.join()
        launch(world, engine, key, WAITS)
        until(engine, key, Phase.READY)
        world.finish(key)
        assert ended(engine, key).exit_code == 0
        assert world.started(key) == 1


def _check_usage(engine: Engine, key: AttemptKey) -> None:
    """Check that the usage of an attempt has what its program has reported and used."""
    if not isinstance(engine, SupportsUsage):
        return
    (usage,) = (line.replicas["primary-0"] for line in engine.read_usage(key))
    assert (usage.step, usage.total) == ((7, 7), 9)
    assert usage.values["loss"].mean == 0.5  # noqa: PLR2004 - as the program says
    assert usage.cpu is not None


def _texts(world: World, key: AttemptKey, stream: str = "stdout") -> Sequence[str]:
    lines = [line for line in world.lines(key) if line.task_name == "primary-0"]
    return [line.text for line in lines if line.stream == stream]


def _replace_program(
    replica: ReplicaPlan, argv: Sequence[str], env: Mapping[str, str]
) -> ReplicaPlan:
    """Return a replica that runs these words, in its image if it has one; ``env`` is added."""
    env = {**replica.env, **env}
    if replica.container is None:
        return replace(replica, argv=tuple(argv), env=env)
    container = replace(replica.container, command=tuple(argv), args=())
    return replace(replica, container=container, env=env)


def _read_umask() -> str:
    mask = os.umask(0)
    os.umask(mask)
    return f"{mask:04o}"
