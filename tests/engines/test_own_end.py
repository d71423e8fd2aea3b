"""What lives on when a job is over by itself gets the engine's time of grace, and no more."""

from engines.attempts import KEY, ended, engine_at, folder, marked
from engines.support import assert_no_survivor
from trainshed.engines.supervise.record import spec

LEAVES_A_DEAF_CHILD = """
import os, signal, time
read, write = os.pipe()
if os.fork() == 0:
    os.setsid()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.write(write, b'x')
    time.sleep(600)
os.read(read, 1)
"""


def test_the_grace_is_the_one_that_was_set(root, mark):
    engine = engine_at(root, grace_s=0.25)
    engine.launch(KEY, marked(mark, LEAVES_A_DEAF_CHILD), ())
    assert ended(engine).outcome.exit_code == 0
    assert_no_survivor(mark)
    assert spec.read(str(folder(root) / "plan.json")).grace_s == 0.25
