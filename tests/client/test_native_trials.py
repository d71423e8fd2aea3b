"""The native API answers trials page by page; a client reads all pages."""

from trainshed.client import following
from trainshed.client.following import NativeTrials


class Pages:
    """A server whose trials have these numbers."""

    def __init__(self, *numbers):
        self.numbers = numbers
        self.paths = []

    def call(self, _verb, path):
        self.paths.append(path)
        after = int(path.partition("?after=")[2] or 0)
        page = [number for number in self.numbers if number > after][:2]
        return {"trials": [{"number": number} for number in page]}


def test_all_pages_are_read(monkeypatch):
    monkeypatch.setattr(following, "TRIALS_PER_PAGE", 2)
    server = Pages(1, 2, 5, 7, 8)
    answer = NativeTrials(server, "P").read()
    assert [trial["number"] for trial in answer["trials"]] == [1, 2, 5, 7, 8]
    assert server.paths == ["P", "P?after=2", "P?after=7"]


def test_a_full_last_page_is_followed_by_an_empty_one(monkeypatch):
    monkeypatch.setattr(following, "TRIALS_PER_PAGE", 2)
    server = Pages(1, 2)
    assert len(NativeTrials(server, "P").read()["trials"]) == 2
    assert server.paths == ["P", "P?after=2"]
