"""The Logging query language beside a second reader of it."""

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from trainshed.model.log_line import decode, encode, encode_all
from trainshed.wire.logging_v2 import narrowing
from trainshed.wire.logging_v2.log_filter import read_log_filter
from wire.log_filter_reader import LINES, TREES, entry_of, is_true, write


@settings(max_examples=400)
@given(tree=TREES, line=LINES, data=st.data())
def test_every_tree_means_the_same_to_a_second_reader(tree, line, data):
    text = write(tree, data.draw)
    entry = entry_of(line)
    assert read_log_filter(text).matches(entry) == is_true(tree, entry.render()), text


@settings(max_examples=400)
@given(tree=TREES, line=LINES, data=st.data())
def test_nothing_that_passes_is_skipped(tree, line, data):
    """Readers of files skip jobs, times and lines before they look at an entry."""
    log_filter = read_log_filter(write(tree, data.draw))
    entry = entry_of(line)
    assume(log_filter.matches(entry))
    allowed = narrowing.time_range(log_filter.tree)
    assert allowed.from_ns <= line.stamp_ns < (allowed.before_ns or line.stamp_ns + 1)
    for names, own in (
        (narrowing.job_ids(log_filter.tree), "j_run"),
        (narrowing.task_names(log_filter.tree), line.task_name),
        (narrowing.trial_numbers(log_filter.tree), line.trial),
    ):
        assert names is None or own in names
    same = {"severity": line.severity, "stream": line.stream, "trial": line.trial}
    for stored in (encode(line), encode_all(line.stamp_ns, line.task_name, [line.text], **same)):
        assert decode(stored) == line
        for clause in narrowing.byte_clauses(
            log_filter.tree, project="demo-proj", job_id="j_run", trial=line.trial
        ):
            assert any(text in stored.lower() for text in clause)
