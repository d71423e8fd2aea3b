"""A command to be killed: runs the trainers whose code it is given, as a local run does.

Arguments: the grace in seconds, ``leaf`` or ``sweep`` (with or without a cgroup), then one
program a replica.  Prints each line of each replica, the notes, and the outcome's message.
"""

import sys
from contextlib import nullcontext
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from engines.support import cluster, plan_of, run, without_cgroups


class Printing:
    def line(self, replica, text, _stream):
        say(f"{replica.task_name} {text}")

    def note(self, text):
        say(f"note {text}")


def say(text):
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def main():
    grace_s, means, *codes = sys.argv[1:]
    with without_cgroups() if means == "sweep" else nullcontext():
        outcome = run(plan_of(cluster(*codes)), Printing(), grace_s=float(grace_s))
    say(outcome.message)
    return outcome.exit_code


if __name__ == "__main__":
    sys.exit(main())
