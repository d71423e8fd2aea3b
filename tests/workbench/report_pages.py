"""Reports of studies, drawn and read by tests."""

import json
from datetime import UTC, datetime
from html.parser import HTMLParser

from trainshed.workbench.study_report.figures import plots
from trainshed.workbench.study_report.page import page
from trainshed.workbench.study_view import read_view

NOW = datetime(2026, 11, 20, 21, tzinfo=UTC)


class Read(HTMLParser):
    """The elements of a page, its addresses, and its text by element."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.addresses, self.texts, self._open = [], [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self._open.append(tag)
        self.addresses += [value for name, value in attrs if name in ("src", "href", "action")]

    def handle_endtag(self, tag):
        while self._open.pop() != tag:
            pass

    def handle_data(self, data):
        self.texts.append((self._open[-1] if self._open else "", data))

    def texts_of(self, tag):
        return [text for name, text in self.texts if name == tag]


def drawn(document):
    view = read_view(document)
    return view, list(plots(view))


def read(document):
    view, plots = drawn(document)
    return Read(page(view, plots, "/* plotly */", NOW))


def figures(plots):
    return {plot.title: json.loads(plot.figure) for plot in plots if plot.figure}
