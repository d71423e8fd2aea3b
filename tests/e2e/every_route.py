"""All routes that there are, read from the tables themselves, so that none can be forgotten."""

import re
from functools import cache
from unittest.mock import MagicMock

from api.access_rules import listed
from api.support import build_native
from trainshed.api.native.app import native_app
from trainshed.api.not_here import ABSENT
from trainshed.api.storage import TABLE
from trainshed.api.table import Handlers, google_table

GOOGLE = google_table(
    Handlers(
        ml_jobs=MagicMock(),
        custom_jobs=MagicMock(),
        tuning_jobs=MagicMock(),
        pipelines=MagicMock(),
        models=MagicMock(),
        operations=MagicMock(),
        logs=MagicMock(),
    )
)
#: (verb, path) below the server's root.
STORAGE = [(verb, path) for verb, path, _ in TABLE]

_NATIVE_APP = native_app(build_native(), "1")
NATIVE = [(verb, f"/trainshed/v1{path}") for verb, path in listed(_NATIVE_APP.routes, "")]


@cache
def openapi_document():
    """Return the document of the native routes.

    It takes a second of a processor: tests ask for it when they run, not when they are collected.
    """
    return _NATIVE_APP.openapi()


#: What storage clients put behind an object's name.
ACTIONS = ("rewriteTo/b/{other}/o/copy", "copyTo/b/{other}/o/copy", "moveTo/o/copy", "compose")


#: Ids of resources that are never made here.
NEVER_MADE = {absent.item: "1" for absent in ABSENT.values()}


def filled(path, names):
    """A path with its braces filled in; ``{name:path}`` is ``{name}``."""
    names = NEVER_MADE | names
    return re.sub(r"\{(\w+)(?::path)?\}", lambda match: names[match[1]], path)


def storage_paths():
    """(verb, path) of every way to call the storage API, copies and sessions among them."""
    for verb, path in STORAGE:
        if "upload" in path:
            for query in ("uploadType=media&name=new", "upload_id={upload}"):
                yield verb, f"{path}?{query}"
        elif verb == "POST" and "{name" in path:
            yield from ((verb, f"{path}/{action}") for action in ACTIONS)
        else:
            yield verb, path
