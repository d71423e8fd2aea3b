"""Logs as their clients read them: page by page, or as they grow."""

import time
from types import SimpleNamespace

from trainshed.api.handlers import page


def read_page(logs, project, query):
    """A page as ``entries:list`` answers it."""
    log_page = logs.entries(project, query)
    entries = [entry.render() for entry in log_page.entries]
    return SimpleNamespace(
        entries=entries,
        next_page_token=log_page.next_page_token,
        document=page("entries", entries, log_page.next_page_token),
    )


def follow(logs, record, after_ns=0):
    """The lines behind a stamp as they come, until the job is over and all was read."""
    cursor = logs.cursor(record, after_ns, follows=True)
    while not cursor.is_over:
        yield from cursor.read()
        cursor.settle_end()
        if cursor.has_all and not cursor.is_over:
            time.sleep(0.01)
