"""What the tests of the service engine share: attempts in a folder, and a server to be killed.

As a script: a server that launches one attempt and then does nothing until it is killed.
Arguments: the folder, the uid, then one program a replica.
"""

import json
import os
import secrets
import sys
import time
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent.parent))

from engines.support import cluster, plan_of, wait_until
from trainshed.engines.local.engine import LocalEngine
from trainshed.engines.local.options import LocalOptions
from trainshed.model.attempt import AttemptKey, Phase
from trainshed.model.log_line import SEGMENT_PATTERN, decode
from trainshed.model.stopping import StopOrder, StopReason

#: Leftovers are looked for by uid on the whole machine: nobody else's tests may have the same.
KEY = AttemptKey(secrets.randbits(60), 1)
OTHER = AttemptKey(secrets.randbits(60), 1)


#: Those of a test, which close with it.
ENGINES = []


def engine_at(root, **more):
    ENGINES.append(LocalEngine(root, LocalOptions(**{"find_gpus": tuple, **more})))
    return ENGINES[-1]


def order(grace_s, reason=StopReason.CANCEL, message=""):
    return StopOrder(grace_s=grace_s, reason=reason, message=message)


def marked(mark, *codes, **more):
    return plan_of(cluster(*codes), mark, **more)


def observe(engine, key=KEY):
    return engine.observe([key])[0]


def until(engine, *phases, key=KEY):
    """The first observation of one of these phases."""
    return wait_until(
        lambda: (o := observe(engine, key)).phase in phases and o,
        lambda: f"{key} is one of {phases}, not {observe(engine, key)}",
    )


def ended(engine, key=KEY):
    return until(engine, Phase.ENDED, key=key)


def folder(root, key=KEY):
    return Path(root) / str(key.uid) / str(key.attempt)


def segments(root, key=KEY):
    return sorted((folder(root, key) / "log").glob(SEGMENT_PATTERN))


def lines(root, key=KEY):
    """Every whole line of an attempt, in the order of its segments."""
    data = b"".join(path.read_bytes() for path in segments(root, key))
    return [decode(line) for line in data.rpartition(b"\n")[0].split(b"\n") if line]


def texts(root, task="master-replica-0", key=KEY):
    return [line.text for line in lines(root, key) if line.task_name == task]


def read_answer(root, task="master-replica-0", key=KEY):
    """Return the last line of a replica's standard output.

    A library may still print a warning on standard error after it.
    """
    answers = [
        line.text for line in lines(root, key) if line.task_name == task and line.stream == "stdout"
    ]
    assert answers, f"{task} has printed nothing: {texts(root, task, key)}"
    return answers[-1]


def records(root, key=KEY):
    try:
        data = (folder(root, key) / "records.jsonl").read_text()
    except FileNotFoundError:
        return []
    return [json.loads(line) for line in data.splitlines() if line]


def record(root, kind, key=KEY):
    return next((r for r in records(root, key) if r["is"] == kind), None)


def supervisor(root, key=KEY):
    """The pid of the supervisor of an attempt, once it has begun."""
    return wait_until(lambda: record(root, "Began", key), "the supervisor has begun")["pid"]


def started(root, plan):
    """An engine that runs a plan, whose primary has said that it is ready."""
    engine = engine_at(root)
    engine.launch(KEY, plan, ())
    wait_until(lambda: "ready" in texts(root), "the replica is ready")
    return engine


def main():
    root, uid, mark, *codes = sys.argv[1:]
    engine_at(Path(root)).launch(AttemptKey(int(uid), 1), marked(mark, *codes), ())
    os.write(1, b"launched\n")
    time.sleep(600)


if __name__ == "__main__":
    main()
