"""Reads server-sent events as a page does: by name, with their data, comments left out."""

import json
from collections.abc import Iterator

import httpx


def read_events(response: httpx.Response) -> Iterator[tuple[str, dict]]:
    """Yield (name, data) of each event as it comes."""
    name = ""
    for line in response.iter_lines():
        field, _, value = line.partition(": ")
        if field == "event":
            name = value
        elif field == "data":
            yield name, json.loads(value)
