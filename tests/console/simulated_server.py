"""``trainshed serve`` whose nodes are simulated: a program for tests, started by its path.

    python simulated_server.py serve --data-dir ...

What attempts do is in benchmarks/service/simulated_nodes.py, what is measured of them in
simulated_engine.py.  They print nothing: tests write their log files.  A person cancels the first
attempt of a job with the argument ``scancel``.  The last node has a GPU that another program uses,
a faulty one, and an instance of a divided one.
"""

import functools
import sys
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))  # benchmarks

from benchmarks.service.documents import T4
from benchmarks.service.simulated_engine import SimulatedEngine
from benchmarks.service.simulated_nodes import compose, nodes, script

from trainshed.app import application as app
from trainshed.cli.main import main
from trainshed.model.attempt import Loss
from trainshed.model.gpus import GpuState, NodeGpu

NODES = 4
GPUS = 8
#: The states of the last node's first GPUs.
STATES = (
    (GpuState.FOREIGN, "pid 4121, python", ""),
    (GpuState.FAULTY, "", "XID 79: the GPU has fallen off the bus"),
)


def with_devices(node, states=()):
    devices = [
        NodeGpu(
            uuid=f"GPU-{node.name}-{index}",
            index=index,
            name="Tesla T4",
            type=T4,
            memory_bytes=16 << 30,
        )
        for index in range(GPUS)
    ]
    for index, (state, who, problem) in enumerate(states):
        devices[index] = replace(devices[index], state=state, who=who, problem=problem)
    if states:
        devices[-1] = replace(devices[-1], uuid="MIG-7f1c", name="NVIDIA A100 MIG 1g.10gb")
    return replace(node, gpus={T4: GPUS - len(states)}, devices=tuple(devices))


def fleet():
    *whole, last = nodes(NODES, GPUS)
    return [*map(with_devices, whole), with_devices(last, STATES)]


class _Engine(SimulatedEngine):
    """Loses the first attempt of a job with ``scancel``, as a cluster does after a scancel."""

    def launch(self, key, plan, place):
        super().launch(key, plan, place)
        if key.attempt == self.launches[key] == 1 and "scancel" in plan.primary.argv:
            self.lose(key, loss=Loss.OPERATOR)


if __name__ == "__main__":
    import trainshed.cli.admin.server  # noqa: F401 - to be replaced

    engine = _Engine(fleet(), script=script)
    simulated = functools.partial(app.build, engine=engine, compose=compose)
    app.build = sys.modules["trainshed.cli.admin.server"].build = simulated
    sys.exit(main())
