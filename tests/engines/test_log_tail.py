"""A log is read on while it is written, and no line is lost where one segment follows another."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainshed.engines.local.attempts.log_tail import LogTail
from trainshed.engines.supervise.record.segments import SegmentWriter


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    return tmp_path_factory


@given(st.lists(st.tuples(st.text(max_size=40), st.booleans(), st.integers(0, 3)), max_size=30))
def test_every_line_comes_once_and_in_order_whenever_it_is_looked_for(folders, steps):
    folder = folders.mktemp("attempt") / "log"
    writer = SegmentWriter(folder, segment_bytes_max=200)
    tail, lines = LogTail(str(folder)), []
    for text, is_flushed, reads in steps:
        writer.line("task", text, severity="INFO", stream="stdout")
        if is_flushed:
            writer.flush()
        for _ in range(reads):
            lines += tail.read()
    writer.close()
    while more := tail.read():
        lines += more
    tail.close()
    assert [line.text for line in lines] == [text for text, _, _ in steps]


def test_segments_that_were_read_are_removed(tmp_path):
    writer = SegmentWriter(tmp_path / "log", segment_bytes_max=100)
    tail = LogTail(str(tmp_path / "log"))
    for number in range(20):
        writer.line("task", str(number), severity="INFO", stream="stdout")
        writer.flush()
        tail.read()
    writer.close()
    tail.close()
    assert len(list((tmp_path / "log").iterdir())) <= 2
