from hypothesis import given
from hypothesis import strategies as st

from engines.support import cluster, run_replicas
from trainshed.engines.processes.lines import LineBuffer


def lines_of(chunks, limit=1 << 20):
    buffer = LineBuffer(limit)
    return [line for chunk in chunks for line in buffer.feed(chunk)] + buffer.finish()


@given(st.lists(st.binary(max_size=30)), st.integers(1, 30))
def test_how_bytes_are_cut_into_reads_changes_no_line(chunks, size):
    whole = b"".join(chunks)
    recut = [whole[i : i + size] for i in range(0, len(whole), size)]
    assert lines_of(chunks) == lines_of(recut) == lines_of([whole])


@given(st.text(st.characters(exclude_characters="\r", exclude_categories=["Cs"])))
def test_text_comes_back_as_it_was_written_split_at_newlines_only(text):
    written = text.split("\n")
    assert lines_of([text.encode()]) == (written if written[-1] else written[:-1])


@given(st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]), min_size=1))
def test_a_line_over_the_limit_arrives_in_pieces_that_lose_and_split_no_character(text):
    data = text.encode()
    for chunks in ([data], [data[i : i + 3] for i in range(0, len(data), 3)]):
        pieces = lines_of(chunks, limit=8)
        assert "".join(pieces) == text
        assert all(len(piece.encode()) <= 8 for piece in pieces)


def test_a_progress_bar_is_seen_while_it_redraws_its_line():
    buffer = LineBuffer()
    assert buffer.feed(b"\r1 of 3") == []
    assert buffer.feed(b"\r2 of 3") == ["1 of 3"]
    assert buffer.feed(b"\r3 of 3\n") == ["2 of 3", "3 of 3"]
    assert buffer.feed(b"end\r") + buffer.feed(b"\n") + buffer.finish() == ["end"]


def test_bytes_that_are_no_utf8_are_replaced_and_windows_line_ends_are_understood():
    assert lines_of([b"a\xffb\r\nc"]) == ["a�b", "c"]


def test_a_replica_may_write_very_long_partial_and_broken_lines():
    code = (
        "import os, sys\n"
        "print('x' * 3_000_000)\n"
        "os.write(1, b'caf\\xc3\\xa9 \\xff\\n')\n"
        "os.write(2, b'no newline')\n"
    )
    outcome, recorder = run_replicas(cluster(code))
    *long, text = recorder.texts("master-replica-0")
    assert outcome.exit_code == 0
    assert "".join(long) == "x" * 3_000_000
    assert text == "café �"
    assert recorder.texts("master-replica-0", "stderr") == ["no newline"]
