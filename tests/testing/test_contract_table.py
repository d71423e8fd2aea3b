"""The page with the tests of the contract by engine is drawn from the tests and the engines."""

import inspect
import re
from pathlib import Path
from typing import NamedTuple

import pytest

from engines import test_engine_contract as local_tests
from engines.test_engine_contract import LocalWorld
from golden import check_golden
from k8s import test_engine_contract as kubernetes_tests
from k8s.world import KubernetesWorld
from slurm import test_engine_contract as slurm_tests
from slurm.world import SlurmWorld
from trainshed.engines import capabilities
from trainshed.engines.kubernetes.engine import KubernetesEngine
from trainshed.engines.local.engine import LocalEngine
from trainshed.engines.slurm.engine import SlurmEngine
from trainshed.testing.engine_contract import EngineContract
from trainshed.testing.program_contract import ProgramContract
from trainshed.testing.queue_contract import QueueContract

PAGE = Path(__file__).parents[2] / "docs/reference/engine-contract.md"
HEAD = """\
# The contract of engines, test by test

Every engine passes the tests of `trainshed.testing.engine_contract` and, if it runs real programs,
those of `trainshed.testing.program_contract`
([add an engine](../../CONTRIBUTING.md#add-an-engine)). This page is drawn from the tests
(`make golden`).

- **yes**: runs in `make test`. The local engine runs each test as the server's user and as users of
  projects; `make test-full` adds Landlock and the sandbox.
- **some cases**: a part of its cases runs in `make test`, and all in `make test-full`.
- **full**: runs in `make test-full` only.
- Another cell says why the test does not apply.

"""
SERVER_PLACES = "no: the server places jobs on its nodes"
#: Parts of a test that a world may turn off.
LIMITS_MEMORY = "too little memory"


class Column(NamedTuple):
    """An engine, its tests, and its world."""

    name: str
    engine: type
    tests: type
    world: type

    @property
    def has_queue(self):
        return "places=PlacedBy.ENGINE" in inspect.getsource(self.engine)

    @property
    def limits_memory(self):
        """Whether the world limits memory on some machine."""
        return "limits_memory = False" not in inspect.getsource(self.world)


COLUMNS = (
    Column("local", LocalEngine, local_tests.TestLocalEngine, LocalWorld),
    Column("Slurm", SlurmEngine, slurm_tests.TestSlurmEngine, SlurmWorld),
    Column("Kubernetes", KubernetesEngine, kubernetes_tests.TestKubernetesEngine, KubernetesWorld),
)


def list_tests():
    """(name, function) of all tests of the kit, in the order of their classes."""
    own = vars(ProgramContract)
    tests = {**vars(EngineContract), **vars(QueueContract), **own}
    return [(name, test) for name, test in tests.items() if name.startswith("test_")]


def describe_promise(name, test):
    sentence = name.removeprefix("test_").replace("_", " ")
    more = " ".join((inspect.getdoc(test) or "").split())
    return f"{sentence[0].upper()}{sentence[1:]}." + (f" {more}" if more else "")


def judge(column, name, test):
    """The cell of a test."""
    source = inspect.getsource(test)
    if "queue" in inspect.signature(test).parameters and not column.has_queue:
        return SERVER_PLACES
    for word in re.findall(r"isinstance\([^,]+, (Supports\w+)\)", source):
        if not issubclass(column.engine, getattr(capabilities, word)):
            return f"no: it has no `{word}`"
    cell = judge_length(getattr(column.tests, "QUICK", None), name)
    if "limits_memory" in source and not column.limits_memory:
        return f"{cell}, without {LIMITS_MEMORY}: its test nodes set no such limit"
    return cell


def judge_length(quick, name):
    """Whether ``make test`` runs a test as a whole, some of its cases, or none."""
    if quick is None or name in quick:
        return "yes"
    return "some cases" if name in names_in(quick) else "full"


def names_in(quick):
    """The names of tests in a selection of tests and of single cases."""
    return {entry.partition("[")[0] for entry in quick}


def draw():
    rows = [
        f"| {describe_promise(name, test)} | "
        + " | ".join(judge(column, name, test) for column in COLUMNS)
        + " |"
        for name, test in list_tests()
    ]
    names = " | ".join(column.name for column in COLUMNS)
    head = [f"| promise | {names} |", "|---|" + "---|" * len(COLUMNS)]
    return HEAD + "\n".join([*head, *rows]) + "\n"


def test_the_page_is_current():
    check_golden(PAGE, draw())


@pytest.mark.parametrize("column", COLUMNS, ids=[column.name for column in COLUMNS])
def test_every_engine_runs_every_test_that_applies(column):
    """No class of tests leaves out a test of the kit, or names one that the kit does not have."""
    names = {name for name, _ in list_tests()}
    assert names_in(getattr(column.tests, "QUICK", ())) <= names
    for name, test in list_tests():
        assert getattr(column.tests, name) is test
