"""A job that floods its log loses lines beyond a rate, and the log says how many."""

import pytest

from trainshed.engines.supervise.loop import Loop
from trainshed.engines.supervise.record.flow import BURST_S, REPORT_S, LogRateLimit
from trainshed.engines.supervise.record.output import Output, OutputSource
from trainshed.engines.supervise.record.segments import SegmentWriter
from trainshed.engines.supervise.record.spec import LogRule
from trainshed.model.log_line import SEGMENT_PATTERN, SERVICE_TASK, decode

RATE = 1000


def count_taken(flow, count, now_s, text="x" * 36):
    return sum(flow.takes(text, now_s) for _ in range(count))


def test_bytes_count_and_not_characters():
    flow = LogRateLimit(LogRule(bytes_per_s=RATE), 5.0)
    assert count_taken(flow, 1000, 5.0, "\N{SNOWMAN}" * 12) == BURST_S * RATE // 100
    assert count_taken(flow, 1, 5.0, "\udcff" * 36) == 0


def test_a_burst_is_taken_whole_and_then_the_rate():
    flow = LogRateLimit(LogRule(bytes_per_s=RATE), 5.0)
    assert count_taken(flow, 1000, 5.0) == BURST_S * RATE // 100
    assert count_taken(flow, 1000, 6.0) == RATE // 100
    assert count_taken(flow, 1000, 6.0) == 0


def test_it_is_said_seldom_and_all_lines_are_counted():
    flow = LogRateLimit(LogRule(bytes_per_s=RATE), 5.0)
    lost = 500 - count_taken(flow, 500, 5.0)
    (sentence,) = flow.sentences(5.0)
    assert sentence.startswith(f"{lost} lines with {36 * lost} bytes were dropped")
    assert "limits.log_bytes_per_s_max" in sentence
    assert count_taken(flow, 3, 5.0) == 0
    assert list(flow.sentences(5.0 + REPORT_S / 2)) == []
    (sentence,) = flow.sentences(5.0 + REPORT_S)
    assert sentence.startswith("3 lines with ")
    assert list(flow.last_sentences()) == []


@pytest.mark.parametrize("rule", [LogRule(), LogRule(bytes_kept=10**9)])
def test_without_a_rate_nothing_is_dropped_or_said(rule):
    flow = LogRateLimit(rule, 0.0)
    assert count_taken(flow, 10_000, 0.0, text="x" * 10_000) == 10_000
    assert list(flow.sentences(0.0)) == list(flow.last_sentences()) == []


def test_a_log_that_is_longer_than_what_is_kept_says_so_once():
    flow = LogRateLimit(LogRule(bytes_kept=1000), 0.0)
    sentences = [
        text for _ in range(30) if flow.takes("x" * 36, 0.0) for text in flow.sentences(0.0)
    ]
    assert len(sentences) == 1
    assert sentences[0].startswith("The log has more than 1000 bytes (logs.bytes_max)")


def test_what_was_dropped_stands_in_the_log(tmp_path):
    loop = Loop()
    log = SegmentWriter(tmp_path / "log")
    output = Output(loop, log, lambda _: None, LogRule(bytes_per_s=RATE))
    writer = output.open(OutputSource(0, "master-replica-0", ""), "stdout")
    with open(writer, "wb") as program:  # noqa: PTH123  # a descriptor, not a path
        program.writelines(b"%036d\n" % number for number in range(1000))
    assert output.finish()
    assert log.sync()
    log.close()
    data = b"".join(path.read_bytes() for path in sorted((tmp_path / "log").glob(SEGMENT_PATTERN)))
    lines = [decode(line) for line in data.splitlines()]
    program_lines = [line for line in lines if line.task_name != SERVICE_TASK]
    sentences = [line.text for line in lines if line.task_name == SERVICE_TASK]
    assert [int(line.text) for line in program_lines[:100]] == list(range(100))
    assert sum(int(text.split()[0]) for text in sentences) == 1000 - len(program_lines) > 0
