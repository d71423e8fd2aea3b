"""Whoever times a run's steps learns when its lines were written."""

from engines.support import Recorder, cluster, plan_of
from trainshed.engines.local import foreground

TELLS_TIMES = "import time\nfor _ in range(5): print(time.time_ns()); time.sleep(0.01)"


class Stamping(Recorder):
    """Keeps the stamps of its lines as well."""

    def __init__(self):
        super().__init__()
        self.stamps = []

    def stamp(self, stamp_ns):
        assert len(self.stamps) == len(self.lines)
        self.stamps.append(stamp_ns)


def test_each_line_comes_after_its_stamp():
    sink = Stamping()
    foreground.run(plan_of(cluster(TELLS_TIMES)), sink)
    written = [int(text) for text in sink.of("master-replica-0")]
    assert len(sink.stamps) == len(written) == 5
    assert sorted(sink.stamps) == sink.stamps
    assert all(at <= stamp for at, stamp in zip(written, sink.stamps, strict=True))
