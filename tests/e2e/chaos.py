"""What the tests of faults share: how much is wanted, jobs that count, and the last look at all."""

import contextlib
import json
import os
import random
import sys

from e2e.support import check_the_end, end_all, good, log_lines, native
from server_process import TRAINSHED, finished

#: ``TRAINSHED_CHAOS=full`` asks for as much as issue and docs promise; the suite takes a part.
FULL = os.environ.get("TRAINSHED_CHAOS") == "full"

#: Longer than a lease of a server lives (3.5 s), after which others may take its jobs.
OUTAGE_S = 60.0 if FULL else 6.0

#: How long a program that counts rests between two lines; each costs the server something.
PAUSE_S = 0.002 if FULL else 0.05

#: Writes 1, 2, 3 ... until a file is there, then how many it were.
COUNT = """\
import itertools, os, time
for number in itertools.count(1):
    print(number, flush=True)
    time.sleep({pause_s})
    if os.path.exists({go!r}):
        print("last", number, flush=True)
        break
"""


@contextlib.contextmanager
def started(*servers):
    """Servers on one folder, each prepared already; at the end as ``support.serving``."""
    try:
        for server in servers:
            server.start()
        yield servers
        for server in servers:
            server.stop()
        check_the_end(servers[0])
    finally:
        for server in servers:
            end_all(server)


def counting(go, *, pause_s=PAUSE_S, status=0):
    """A program that counts until a file is there, and ends with a status."""
    return COUNT.format(go=str(go), pause_s=pause_s) + f"raise SystemExit({status})\n"


def some_random():
    """Random numbers that can be had again: what a failed test shows has their seed."""
    seed = int(os.environ.get("TRAINSHED_CHAOS_SEED") or random.SystemRandom().randrange(10**9))
    sys.stdout.write(f"TRAINSHED_CHAOS_SEED={seed}\n")
    return random.Random(seed)  # noqa: S311 - nothing secret


def uid_of(name):
    """The number of a job, from its full name; AI Platform's have none in it."""
    return name.rpartition("/")[2]


def replica_texts(server, name):
    """What the first replica wrote, each line once and in the order of the stamps."""
    lines = log_lines(server, name, task="workerpool0-0")
    stamps = [line["time"] for line in lines]
    assert stamps == sorted(set(stamps)), "stamps ascend strictly"
    return [line["message"] for line in lines]


def check_count(texts):
    """1 to N, each once and in order, then N."""
    *numbers, last = texts
    assert numbers == [str(number) for number in range(1, len(numbers) + 1)], texts[-5:]
    assert last == f"last {len(numbers)}"


def check_ran_once(server, name):
    """Nobody has started it again, and it had one supervisor."""
    assert (native(server, name)["attempt"], restarts(server, name)) == (1, {})
    path = server.data_dir / "jobs" / native(server, name)["uid"]
    assert [attempt.name for attempt in path.iterdir()] == ["1"]
    assert len(records(path / "1", "Began")) == 1


def records(folder, kind):
    """The records of one kind in the folder of an attempt, damage left out."""
    rows = []
    try:
        lines = (folder / "records.jsonl").read_bytes().splitlines()
    except FileNotFoundError:
        return []
    for line in lines:
        try:
            record = json.loads(line)
        except ValueError:
            continue
        if isinstance(record, dict) and record.get("is") == kind:
            rows.append(record)
    return rows


def restarts(server, name):
    """How often a job was started again, by cause; causes that never were are left out."""
    counts = native(server, name).get("restarts", {})
    return {cause: count for cause, count in counts.items() if count}


def events(server, name):
    """The kinds of the events in a job's story."""
    return [event["kind"] for event in native(server, name, "/events")["events"]]


def cancel(server, name):
    """Ask for the end of a job of Vertex."""
    good(server.call("POST", f"/v1/{name}:cancel", {}))


def doctor(server, *flags, run=finished):
    """What ``trainshed doctor`` says: its exit code and, by id, every check that is not well."""
    argv = [TRAINSHED, "doctor", "--data-dir", server.data_dir, "--format", "json", *flags]
    ran = run(argv)
    assert ran.returncode in {0, 1, 2}, ran.stderr
    checks = json.loads(ran.stdout)["checks"]
    return ran.returncode, {check["id"]: check for check in checks if check["result"] != "ok"}


def check_doctor(server, *flags, run=finished):
    """All promises hold."""
    code, failures = doctor(server, *flags, run=run)
    assert code == 0, json.dumps(failures, indent=1)
