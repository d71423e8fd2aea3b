"""The goodput of a stopped training, against times that its log has."""

import math
import re
import sys
from datetime import datetime

from e2e import fleet
from e2e.support import PROJECT, good, log_lines, native, wait_until

START = re.compile(r"(?:resumed from|started at) step (\d+)")
SAVED = re.compile(r"saved step (\d+)")
#: The trainer writes its steps once a second, and prints a line some time before it is stamped.
ABOUT_S = 2.0


def check_goodput(server, name, primary):
    """Its buckets fill its held time, and what was lost is what its log says."""
    goodput = native(server, name, "/goodput")
    attempts = goodput["attempts"]
    for part in (*attempts, goodput):
        uses = [part["seconds"][use] for use in attempts[0]["seconds"]]
        held_s = part["seconds"].get("held") or part["ended"] - part["placed"]
        assert abs(sum(uses) - held_s) < 1e-3, part
    lines = [
        (stamp(line["time"]), line["message"]) for line in log_lines(server, name, task=primary)
    ]
    starts = [int(match[1]) for _, text in lines if (match := START.match(text))]
    first_steps = [attempt["first_step"] for attempt in attempts]
    assert first_steps == [step + 1 for step in starts], (attempts, lines)
    for attempt, resumed in zip(attempts, starts[1:], strict=False):
        by_hand = lost_by_hand(server, name, attempt, resumed, lines)
        lost_s = attempt["seconds"]["lost"]
        sys.stdout.write(f"attempt {attempt['attempt']} lost {lost_s:.2f} s, log: {by_hand:.2f}\n")
        about_s = ABOUT_S + by_hand / 5  # its steps are not all of one length
        assert abs(lost_s - by_hand) < about_s, (attempt, resumed, lines)
    assert 0 < goodput["goodput"] < 1
    assert goodput["energy_j"] is None
    said = fleet.accounted(server, name)
    assert said["message"] == goodput["message"]
    assert len(fleet.story(server, name, "GOODPUT")) == 1
    wait_until(lambda: agrees_with_usage(server), lambda: str(costs_of_usage(server)))


def agrees_with_usage(server):
    """Whether the server's sums are those of its jobs, which are all over."""
    jobs = good(server.call("GET", f"/trainshed/v1/projects/{PROJECT}/jobs"))["jobs"]
    costs = [native(server, job["name"], "/goodput")["cost"] for job in jobs]
    of_jobs = sum(cost["amount"] for cost in costs if cost)
    return all(abs(amount - of_jobs) < 1e-6 for amount in costs_of_usage(server))


def costs_of_usage(server):
    """The costs of all jobs, as the server adds them up by each key."""
    reports = [
        good(server.call("GET", f"/trainshed/v1/usage?by={by}&project={PROJECT}"))
        for by in ("project", "user", "type", "day")
    ]
    return [sum(row["cost"]["amount"] for row in report["rows"]) for report in reports]


def lost_by_hand(server, name, attempt, resumed, lines):
    """Seconds from the step at which the next attempt began to the end or the notice."""
    within = [(at, text) for at, text in lines if attempt["placed"] <= at <= attempt["ended"]]
    # the last lines before a kill may be missing
    reached = [at for at, text in within if START.match(text) or saved_step(text) <= resumed]
    return max(0.0, end_of(server, name, attempt) - reached[-1])


def saved_step(line):
    """The step of a line that says that it was saved; infinity for other lines."""
    match = SAVED.match(line)
    return int(match[1]) if match else math.inf


def end_of(server, name, attempt):
    """When the attempt was told to stop, or else was over."""
    number = attempt["attempt"]
    events = [event for event in fleet.story(server, name) if event["attempt"] == number]
    orders = [event for event in events if event["kind"] == "RESTART_ORDERED"]
    return stamp(orders[0]["time"]) if orders else attempt["ended"]


def stamp(time):
    return datetime.fromisoformat(time).timestamp()
