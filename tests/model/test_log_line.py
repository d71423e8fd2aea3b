"""Lines that are taken many at a time are those that are taken one by one."""

from hypothesis import given
from hypothesis import strategies as st

from trainshed.model.log_line import LogLine, encode, encode_all
from trainshed.model.severity import SeverityReader

#: What lines that say something are made of, and what looks like it.
PIECES = st.sampled_from(
    [
        "INFO", "ERROR", "WARNING:", "[WARN]", "E0102 10:11:12.3", "I am", "[I cuda.cpp:12]",
        "F1234 ", "2026-01-02 03:04:05", "2026/01/02T03:04:05,123Z", " - a.b - ERROR - x",
        "error: ", "fatal error: ", "x.py:12: UserWarning: y", "ValueError: z", "KeyError",
        "Traceback (most recent call last):", "  File x", '{"severity": "ERROR"}', "{",
        "+ Exception Group Traceback (most recent call last):", "[rank0]: ", "[1]:",
        "Fatal Python error: ", "Segmentation fault", "Aborted (core dumped)", " ", "\t", "\x0b",
        "\x1c", "step 1 loss 0.5", "x" * 199, "(", "[", "]", ":", "é", "0", "Interrupt",
    ]
)  # fmt: skip
LINES = st.lists(st.lists(PIECES, max_size=4).map("".join), min_size=1, max_size=6)


@given(LINES)
def test_lines_that_are_said_to_be_plain_are_all_infos(lines):
    reader, one = SeverityReader(), SeverityReader()
    for _ in range(2):  # the second time perhaps inside of a traceback
        are_plain = reader.are_plain("\n".join(lines))
        severities = [one.of(line) for line in lines]
        if are_plain:
            assert set(severities) == {"INFO"}
        for line in lines:
            reader.of(line)


def test_what_most_programs_write_is_plain():
    reader = SeverityReader()
    assert reader.are_plain("step 1 loss 0.5\nEpoch 3/10\n  10%|#   |\nI am\n\n100 items")


@given(st.lists(st.text(st.characters(exclude_characters="\n"))))
def test_many_lines_at_once_are_the_bytes_of_each(texts):
    lines = [
        encode(LogLine(7 + at, 'wor"ker', text, "INFO", "stderr", "3"))
        for at, text in enumerate(texts)
    ]  # fmt: skip
    more = {"severity": "INFO", "stream": "stderr", "trial": "3"}
    assert encode_all(7, 'wor"ker', texts, **more) == b"".join(lines)
