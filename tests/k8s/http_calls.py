"""Requests to the emulator as a client without a library sends them."""

import http.client
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from k8s.emulator.api import ADMIN_TOKEN

DEADLINE_S = 60.0
JOBSETS = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/{}/jobsets"


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    text: str
    headers: dict[str, str]

    @property
    def body(self) -> Any:
        return json.loads(self.text)


class Caller:
    """One user's requests, each on a connection of its own."""

    def __init__(self, api, token=ADMIN_TOKEN, impersonated=""):
        self._port = api.server.port
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        if impersonated:
            self._headers["Impersonate-User"] = impersonated

    def call(
        self, method, path, body=None, *, content_type="application/json", accept="", **query
    ) -> Reply:
        connection, response = self._open(method, path, body, content_type, accept, query)
        try:
            headers = {name.lower(): value for name, value in response.getheaders()}
            return Reply(response.status, response.read().decode(), headers)
        finally:
            connection.close()

    def watch(self, path, **query) -> Iterator[dict]:
        """The events of a watch until the server ends it, or the caller closes the iterator."""
        connection, response = self._open("GET", path, None, "", "", {"watch": "1", **query})
        try:
            assert response.status == 200
            while line := response.readline():
                yield json.loads(line)
        finally:
            connection.close()

    def _open(self, method, path, body, content_type, accept, query):  # noqa: PLR0913, PLR0917 - parts of a request
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=DEADLINE_S)
        headers = dict(self._headers)
        if body is not None:
            headers["Content-Type"] = content_type
        if accept:
            headers["Accept"] = accept
        url = f"{path}?{urlencode(query)}" if query else path
        data = None if body is None else json.dumps(body).encode()
        connection.request(method, url, data, headers)
        return connection, connection.getresponse()


def make_pod(name="p", *, namespace="default", **spec) -> dict:
    container = {"name": "main", "image": "trainer:1"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"restartPolicy": "Never", "containers": [container], **spec},
    }


def make_job(name="j", *, namespace="default", **spec) -> dict:
    template = {"spec": make_pod()["spec"]}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"template": template, **spec},
    }


def make_jobset(name="js", *, namespace="default", **spec) -> dict:
    role = {"name": "primary", "template": {"spec": make_job()["spec"]}}
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"replicatedJobs": [role], **spec},
    }


def own(obj, owner, *, blocks=True) -> dict:
    """``obj`` as a dependent of ``owner``."""
    reference = {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": blocks,
    }
    obj["metadata"]["ownerReferences"] = [reference]
    return obj
