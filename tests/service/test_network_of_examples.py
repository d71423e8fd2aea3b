"""The examples get the same environment in a network of their own, but for addresses and ports.

``tests/golden/network`` has the differences one file an example.
"""

import difflib
import json
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from golden import check_golden
from launch.builders import STUDY, TRIAL
from service.submitting import PLACE, Desk, custom_job, images, ml_job
from trainshed.config import ImageMapping
from trainshed.engines.local.engine import LocalEngine
from trainshed.engines.local.options import LocalOptions
from trainshed.engines.network import addresses
from trainshed.engines.network.choose import JobNetwork
from trainshed.engines.several import Engines
from trainshed.model.network import NetworkLayout
from trainshed.service.starts.interpreters import LIBRARY
from trainshed.service.starts.launching import Launching
from trainshed.storage.buckets import Buckets

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests/golden/network"
ANY_IMAGE = ImageMapping(environment="default", image="*", entrypoint=("python", "-c", "pass"))

#: The layout that each example has without a label.
EXAMPLES = {
    "torch-ddp": NetworkLayout.REPLICA,
    "tf-multiworker": NetworkLayout.REPLICA,
    "tf-parameter-server": NetworkLayout.REPLICA,
    "jax-data-parallel": NetworkLayout.REPLICA,
    "torch-reduction": NetworkLayout.JOB,
    "tuning": NetworkLayout.JOB,
}


@pytest.fixture
def plans(store, tmp_path, monkeypatch):
    """The plans of an example with the host's network, and with one of its own."""
    monkeypatch.setattr(addresses, "free_runs", _ports)
    desk = Desk(store, table=images(ANY_IMAGE))

    def plan(example):
        record = _submit(desk, example)
        spec, notes = store.to_launch(record.uid)
        if example == "tuning":
            spec = replace(spec, study=STUDY, trial=TRIAL)
        monkeypatch.setattr(store, "to_launch", lambda _: (spec, notes))
        return [_launching(store, tmp_path, networks)(record, 1, []) for networks in (False, True)]

    return plan


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_s_environment_differs_by_addresses_and_ports_only(plans, example):
    on_host, own = plans(example)
    assert (on_host.network, own.network.layout) == (None, EXAMPLES[example])
    assert len(own.network.addresses) == len(own.replicas)
    difference = "".join(_difference(on_host, own))
    check_golden(GOLDEN / f"{example}.diff", difference)
    assert _environments(own, _names_of(own)) == _environments(on_host, _names_of(on_host))
    assert [replica.argv for replica in own.replicas] == [
        replica.argv for replica in on_host.replicas
    ]


@pytest.mark.parametrize("example", EXAMPLES)
def test_every_name_of_an_example_s_replicas_leads_to_its_own_address(plans, example):
    _, own = plans(example)
    by_name = {name: address for address, name in own.hosts}
    names = [replica.task_name for replica in own.replicas]
    assert [by_name[name] for name in names] == list(own.network.addresses)


def _submit(desk, example):
    folder = ROOT / "examples" / example
    if (folder / "config.yaml").exists():
        training = yaml.safe_load((folder / "config.yaml").read_text())["trainingInput"]
        training.pop("hyperparameters", None)
        return desk.ml(ml_job(example.replace("-", "_"), **{"region": PLACE, **training}))
    pools = yaml.safe_load((folder / "job.yaml").read_text())["workerPoolSpecs"]
    return desk.custom(custom_job(*pools, name=example))


def _launching(store, folder, networks):
    options = LocalOptions(network=JobNetwork(is_own=networks))
    return Launching(
        store,
        Engines.from_engine(LocalEngine(folder / "jobs", options)),
        images=images(ANY_IMAGE),
        buckets=Buckets(root=folder / "buckets"),
        library=folder / LIBRARY,
        environ={"PATH": "/usr/bin"},
    )


def _ports(widths, _start):
    """Ports of the loopback that are the same in every run."""
    return tuple(15000 + sum(widths[:place]) for place in range(len(widths)))


def _difference(before, after):
    """What changes, a variable a line, and documents of JSON by their lines."""
    for old, new in zip(before.replicas, after.replicas, strict=True):
        lines = difflib.unified_diff(_lines(old), _lines(new), "host", old.task_name, n=0)
        yield from (f"{line.rstrip()}\n" for line in lines if not line.startswith("@@"))


def _lines(replica):
    lines = []
    for name, text in replica.env.items():
        value = json.dumps(json.loads(text), indent=1) if text.startswith("{") else text
        lines += [f"{name} {line}" for line in value.splitlines()]
    return lines


def _environments(plan, names):
    """The variables of each replica with names in the place of addresses and ports."""
    environments = {}
    for replica in plan.replicas:
        env = dict(replica.env)
        for address, name in names.items():
            env = {key: text.replace(address, name) for key, text in env.items()}
        if "MASTER_ADDR" in env:
            env["MASTER_ADDR"] = "PRIMARY"
            env["MASTER_PORT"] = "RENDEZVOUS"
        environments[replica.task_name] = env
    return environments


def _names_of(plan):
    """A name for every HOST:PORT that stands in the variables of a plan, in their order."""
    words = []
    for replica in plan.replicas:
        for text in replica.env.values():
            for word in text.replace('"', " ").replace(",", " ").split():
                host, colon, port = word.rpartition(":")
                if colon and port.isdigit() and host.startswith(("127.0.0.1", "198.18.")):
                    words.append(word)
    return {word: f"ADDRESS-{place}" for place, word in enumerate(dict.fromkeys(words))}
