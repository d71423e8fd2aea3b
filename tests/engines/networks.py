"""Attempts of tests that have a network of their own."""

from dataclasses import replace

import pytest

from engines.attempts import KEY, engine_at, marked
from engines.isolating import isolation_of
from trainshed.engines.isolation.modes import SANDBOX, USERS
from trainshed.engines.network.choose import JobNetwork, try_network
from trainshed.engines.network.rule import replica_address
from trainshed.model.launch_plan import NetworkPlan, Owner
from trainshed.model.network import NetworkLayout

MODES = (USERS, SANDBOX)


def launch_in_network(root, mark, *codes, mode=USERS, layout=NetworkLayout.JOB, **more):
    """Start replicas that share one network namespace, or have one each.

    ``key`` is the job's, ``listeners`` are addresses of the gateway, and ``engine`` is one that was
    made before; others, such as ``owner``, are parts of the plan.
    """
    isolation = skip_without_networks(mode, root)
    engine = more.pop("engine", None) or engine_at(
        root,
        isolation=isolation,
        network=JobNetwork(is_own=True),
        pass_env=(),
        cache_dir=root.with_name("cache"),
    )
    key, listeners = more.pop("key", KEY), more.pop("listeners", ())
    addresses = tuple(map(replica_address, range(len(codes))))
    plan = marked(
        mark,
        *codes,
        network=NetworkPlan(layout=layout, addresses=addresses, listeners=listeners),
        hosts=tuple((address, f"replica-{index}") for index, address in enumerate(addresses)),
    )
    engine.launch(key, replace(plan, **{"owner": Owner(project="alpha", number=0), **more}), ())
    return engine


def skip_without_networks(mode, *hidden):
    """The walls of a mode whose jobs have networks of their own here; else the test is skipped."""
    isolation = isolation_of(mode, *hidden)
    if why := try_network(mode):
        pytest.skip(f"no network of a job's own here: {why}")
    return isolation
