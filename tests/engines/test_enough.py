"""Whoever times a run's steps learns when lines were written, and hears Ctrl-C until its end."""

import os
import signal

from engines.support import Recorder, cluster, plan_of
from trainshed.engines.local import foreground

TELLS_TIMES = "import time\nfor _ in range(5): print(time.time_ns()); time.sleep(0.01)"
IS_ASKED = """
import signal, time
signal.signal(signal.SIGTERM, lambda *_: print("asked to end"))
print("ready")
while True: time.sleep(600)
"""


class Stamping(Recorder):
    """Keeps the stamps of its lines as well."""

    def __init__(self):
        super().__init__()
        self.stamps = []

    def stamp(self, stamp_ns):
        assert len(self.stamps) == len(self.lines)
        self.stamps.append(stamp_ns)


class Interrupting(Recorder):
    """Presses Ctrl-C when the trainer says that it was asked to end."""

    def line(self, replica, text, stream):
        super().line(replica, text, stream)
        if text == "asked to end":
            os.kill(os.getpid(), signal.SIGINT)


def test_each_line_comes_after_its_stamp():
    sink = Stamping()
    foreground.run(plan_of(cluster(TELLS_TIMES)), sink)
    written = [int(text) for text in sink.texts("master-replica-0")]
    assert len(sink.stamps) == len(written) == 5
    assert sorted(sink.stamps) == sink.stamps
    assert all(at <= stamp for at, stamp in zip(written, sink.stamps, strict=True))


def test_ctrl_c_while_a_run_ends_that_has_shown_enough_is_heard():
    sink = Interrupting()

    def enough(_steps):
        return "that is enough" if sink.lines else ""

    ran = foreground.run(plan_of(cluster(IS_ASKED)), sink, enough=enough, grace_s=60.0)
    assert ran.outcome.exit_code == 130
    assert ran.outcome.message == "stopped by SIGINT"
    assert sink.texts("master-replica-0") == ["ready", "asked to end"]
