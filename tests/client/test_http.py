"""The client's own promises; what it says to a server is tested with one (tests/cli)."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from trainshed.client.http import _lines


class Answer:
    def __init__(self, pieces):
        self._pieces = [piece for piece in pieces if piece]

    def read1(self, _):
        return self._pieces.pop(0) if self._pieces else b""


@given(
    st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\n"))),
    st.lists(st.integers(0, 200)),
)
def test_lines_are_whole_wherever_the_network_cuts_them(texts, places):
    lines = [text.encode() for text in texts]
    data = b"".join(line + b"\n" for line in lines)
    cuts = [0, *sorted(places), len(data)]
    pieces = [data[start:end] for start, end in pairwise(cuts)]
    assert list(_lines(Answer(pieces))) == lines
