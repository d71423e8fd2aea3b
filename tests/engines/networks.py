"""Attempts of tests that have a network of their own."""

import pytest

from engines.attempts import KEY, engine_at, marked
from engines.isolating import isolation_of
from trainshed.engines.isolation_modes import SANDBOX, USERS
from trainshed.engines.network.choose import JobNetwork, try_network
from trainshed.engines.network.rule import replica_address
from trainshed.model.launch_plan import NetworkPlan, Owner
from trainshed.model.network import NetworkLayout

MODES = (USERS, SANDBOX)


def launch_in_network(root, mark, *codes, mode=USERS, layout=NetworkLayout.JOB, **more):
    """Start replicas that share one network namespace, or have one each.

    ``key`` and ``owner`` are the job's and its project, ``listeners`` addresses of the gateway;
    ``engine`` is one that was made before.
    """
    isolation = isolation_of(mode, root)
    if why := try_network(mode):
        pytest.skip(f"no network of a job's own here: {why}")
    network = JobNetwork(is_own=True)
    engine = more.get("engine") or engine_at(
        root, isolation=isolation, network=network, pass_env=()
    )
    addresses = tuple(map(replica_address, range(len(codes))))
    plan = marked(
        mark,
        *codes,
        network=NetworkPlan(
            layout=layout, addresses=addresses, listeners=more.get("listeners", ())
        ),
        hosts=tuple((address, f"replica-{index}") for index, address in enumerate(addresses)),
        owner=more.get("owner", Owner(project="alpha", number=0)),
    )
    engine.launch(more.get("key", KEY), plan, ())
    return engine
