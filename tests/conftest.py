"""For all tests: how much is tried, what may be left behind, who runs beside whom."""

import gc
import os
import signal
from collections import Counter

import pytest
from hypothesis import settings

pytest_plugins = ["leftovers", "forked"]

# gRPC would take part in every fork of this process, and end the local engine's supervisor, which
# is one.  No process of ours forks beside a gRPC server but this one: a runner has none.
os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"

# What a shell has started with `&` ignores SIGINT, with `nohup` SIGHUP; the programs that tests
# start must not.
for signum, handler in (
    (signal.SIGINT, signal.default_int_handler),
    (signal.SIGHUP, signal.SIG_DFL),
):
    if signal.getsignal(signum) is signal.SIG_IGN:
        signal.signal(signum, handler)

# Collecting makes a million objects that stay: to look through them again and again takes a quarter
# of the time of collecting, and afterwards the collector would walk them for every test.
gc.disable()

#: ``make test-full``: every test, at full length.
FULL = os.environ.get("TRAINSHED_CHAOS") == "full"

# No test is about time, and the machine may be busy.  What is drawn is the same everywhere, so that
# a change is judged by what it changes; `make test-full` draws at random, and more.
settings.register_profile("short", deadline=None, derandomize=True)
settings.register_profile("full", deadline=None, derandomize=False)
settings.load_profile("full" if FULL else "short")
#: How many examples are drawn of 100 that a property asks for, which is the default.
EXAMPLES_PERCENT = 1000 if FULL else 12


def pytest_collection_modifyitems(config, items):
    """Leave out what is marked ``full``, unless it is asked for by its own name."""
    if hasattr(config, "workerinput"):
        take_turns(config, items)
    for item in items:
        if hasattr(item.obj, "hypothesis"):
            scale_examples(item.function)
    if FULL or any("::" in word for word in config.args):
        return
    left_out = [item for item in items if item.get_closest_marker("full")]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if not item.get_closest_marker("full")]


def pytest_collection_finish():
    """Let the collector look at what the tests make, and not at the tests."""
    gc.freeze()
    gc.enable()


def take_turns(config, items):
    """The longest files, then a file of each folder, the second of each: some wait, some compute.

    A file that is begun last is waited for.
    """
    names = (config.rootpath / "tests" / "longest.txt").read_text().split()
    longest = {config.rootpath / "tests" / name: place for place, name in enumerate(names)}
    files = {}
    for item in items:
        files.setdefault(item.path.parent, {}).setdefault(item.path)
    turns = {path: turn for paths in files.values() for turn, path in enumerate(paths)}
    last = len(longest)
    items.sort(key=lambda item: (longest.get(item.path, last), turns[item.path], item.path))


def scale_examples(function):
    """Draw fewer examples, or more; each function is met once for each of its parameters."""
    requested = function._hypothesis_internal_use_settings
    count = max(1, requested.max_examples * EXAMPLES_PERCENT // 100)
    if not hasattr(function, "scaled"):
        function.scaled = True
        function._hypothesis_internal_use_settings = settings(requested, max_examples=count)


def pytest_terminal_summary(terminalreporter):
    """The time of each part; parts run beside each other, so that the sum is more than the wall."""
    seconds, counts = Counter(), Counter()
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                part = "/".join(report.nodeid.split("::")[0].split("/")[:2])
                seconds[part] += report.duration
                counts[part] += report.when == "call"
    terminalreporter.section("seconds of each part")
    for part, total in seconds.most_common():
        terminalreporter.write_line(f"{total:8.1f} s {counts[part]:5} tests  {part}")
