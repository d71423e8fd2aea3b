"""The native routes that the console calls, and the command with which a terminal does the same."""

import re
from functools import cache

from e2e.every_route import openapi_document

JOBS, JOB = "/projects/{project}/jobs", "/projects/{project}/jobs/{job}"
#: What only a browser needs: its own sign-in, and links that can send no header.
OF_BROWSERS = "console"
VERBS = {
    ("GET", "/signin"): OF_BROWSERS,
    ("POST", "/signin"): OF_BROWSERS,
    ("DELETE", "/signin"): OF_BROWSERS,
    ("POST", "/downloads"): OF_BROWSERS,
    ("GET", "/stream"): "jobs list",
    ("GET", "/projects"): "projects list",
    ("GET", JOBS): "jobs list",
    ("POST", JOBS): "jobs submit",
    ("POST", f"{JOBS}:check"): "jobs check",
    ("POST", f"{JOBS}:cancel"): "jobs cancel",
    ("GET", JOB): "jobs describe",
    ("DELETE", JOB): "jobs delete",
    ("POST", f"{JOB}:cancel"): "jobs cancel",
    ("POST", f"{JOB}:label"): "jobs label",
    ("GET", "/projects/{project}/progress"): "jobs usage",
    ("GET", f"{JOB}/usage"): "jobs usage",
    ("GET", f"{JOB}/scalars"): "jobs scalars",
    ("GET", f"{JOB}/goodput"): "jobs goodput",
    ("GET", f"{JOB}/document"): "jobs document",
    ("GET", f"{JOB}/explain"): "jobs explain",
    ("GET", f"{JOB}/events"): "jobs events",
    ("GET", f"{JOB}/manifest"): "jobs manifest",
    ("GET", f"{JOB}/logs:window"): "jobs logs",
    ("GET", f"{JOB}/logs:search"): "jobs logs",
    ("GET", f"{JOB}/logs:download"): "jobs logs",
    ("GET", f"{JOB}/study"): "jobs study",
    ("GET", f"{JOB}/study:importances"): "jobs study",
    ("GET", f"{JOB}/trials"): "jobs watch",
    ("GET", f"{JOB}/trials:curves"): "jobs study",
    ("GET", "/nodes"): "nodes",
    ("POST", "/nodes/{node}:drain"): "nodes drain",
    ("POST", "/nodes/{node}:maintain"): "nodes maintain",
    ("POST", "/nodes/{node}:resume"): "nodes resume",
    ("GET", "/tokens"): "tokens",
    ("POST", "/tokens"): "tokens",
    ("DELETE", "/tokens/{token}"): "tokens",
    ("GET", "/keys"): "keys",
    ("POST", "/keys"): "keys",
    ("DELETE", "/keys/{key}"): "keys",
    ("GET", "/audit"): "audit list",
    ("GET", "/usage"): "usage",
    ("GET", "/alerts"): "alerts",
}


def find_route(method, path):
    """Return the documented (method, path) of a call below /trainshed/v1; None if there is none."""
    return next(
        (route[:2] for route in _routes() if route[0] == method and route[2].match(path)), None
    )


@cache
def _routes():
    """Return the (method, path, pattern of the path) of each documented route."""
    return [
        (verb.upper(), path, re.compile(re.sub(r"\{[^}]*\}", "[^/:]+", path) + "$"))
        for path, verbs in openapi_document()["paths"].items()
        for verb in verbs
    ]
