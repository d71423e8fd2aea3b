"""Settings of all tests: the number of examples, allowed leftovers, and the order of files."""

import gc
import os
import signal
import sys
from collections import Counter

import pytest
from hypothesis import settings

pytest_plugins = ["leftovers", "forked", "interrupted"]

# Contracts of engines and stores are tests, though their modules are not named like tests.
pytest.register_assert_rewrite("trainshed.testing")

# With fork support, gRPC would act in every fork of this process and end the local engine's
# supervisor, which is a fork.  No other process of Trainshed forks next to a gRPC server: a runner
# has none.
os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"

# Programs that a shell starts with `&` ignore SIGINT, with `nohup` SIGHUP; programs that tests
# start must not ignore them.
for signum, handler in (
    (signal.SIGINT, signal.default_int_handler),
    (signal.SIGHUP, signal.SIG_DFL),
):
    if signal.getsignal(signum) is signal.SIG_IGN:
        signal.signal(signum, handler)

# Collection makes a million objects that stay.  The garbage collector would spend a quarter of the
# time of collection on them, and would walk them again for every test.
gc.disable()

#: ``make test-full``: every test, at full length.
FULL = os.environ.get("TRAINSHED_CHAOS") == "full"

# No test has a deadline, because the machine may be busy.  Examples are the same on every machine,
# so that only a change of the code changes results; `make test-full` draws more examples, at
# random.
settings.register_profile("short", deadline=None, derandomize=True)
settings.register_profile("full", deadline=None, derandomize=False)
settings.load_profile("full" if FULL else "short")
CONSOLE = "tests/console/"
#: The percentage of a property's examples that are drawn; the default of a property is 100
#: examples.
EXAMPLES_PERCENT = 1000 if FULL else 12


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config):
    """Give each test an hour at full length.

    PYTEST_ADDOPTS would give the option to each pytest that a test starts, too.
    """
    if FULL and config.getoption("timeout", None) is None:
        config.option.timeout = 3600


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Run a file on one worker, and all files of the console, whose tests share a browser."""
    from xdist.scheduler import LoadFileScheduling  # noqa: PLC0415 - not all environments have it

    class Scheduler(LoadFileScheduling):
        def _split_scope(self, nodeid):
            return CONSOLE if nodeid.startswith(CONSOLE) else super()._split_scope(nodeid)

    return Scheduler(config, log) if config.getvalue("dist") == "loadfile" else None


def pytest_itemcollected(item):
    """Run only a class's own selection of a contract in ``make test``: tests, or one case each."""
    quick = getattr(item.cls, "QUICK", None)
    if quick is not None and quick.isdisjoint({item.name, item.originalname}):
        item.add_marker(pytest.mark.full)


def pytest_collection_modifyitems(config, items):
    """Deselect tests marked ``full``, unless the command line names them."""
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
    """Let the garbage collector walk objects that the tests make, and not the tests."""
    gc.freeze()
    gc.enable()


def take_turns(config, items):
    """Order files: the longest ones, then the first of each folder, the second of each, and so on.
    So files that wait run beside files that compute, and no long file starts last.
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
    """Draw fewer examples, or more; this is called once for each parameter set of a function."""
    requested = function._hypothesis_internal_use_settings
    count = max(1, requested.max_examples * EXAMPLES_PERCENT // 100)
    if not hasattr(function, "scaled"):
        function.scaled = True
        function._hypothesis_internal_use_settings = settings(requested, max_examples=count)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """Pause coverage in tests marked ``untraced``.

    They repeat branches of other tests thousands of times, and take three times as long if traced.
    """
    coverage = "coverage" in sys.modules and sys.modules["coverage"].Coverage.current()
    if not coverage or not item.get_closest_marker("untraced"):
        return (yield)
    coverage.stop()
    try:
        return (yield)
    finally:
        coverage.start()


def pytest_terminal_summary(terminalreporter):
    """Print the time of each part; parts run in parallel, so the sum is more than the elapsed
    time."""
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
