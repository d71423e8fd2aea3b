"""``trainshed serve`` whose nodes are simulated: a program for tests, started by its path.

    python simulated_server.py serve --data-dir ...

What attempts do is in benchmarks/service/simulated_nodes.py.  They print nothing: tests write their
log files.
"""

import functools
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))  # benchmarks

from benchmarks.service.simulated_nodes import compose, nodes, script

from trainshed.app import application as app
from trainshed.cli.main import main
from trainshed.testing.fake_engine import FakeEngine

NODES = 4
GPUS = 8

if __name__ == "__main__":
    import trainshed.cli.admin.server  # noqa: F401 - to be replaced

    engine = FakeEngine(nodes(NODES, GPUS), script=script)
    simulated = functools.partial(app.build, engine=engine, compose=compose)
    app.build = sys.modules["trainshed.cli.admin.server"].build = simulated
    sys.exit(main())
