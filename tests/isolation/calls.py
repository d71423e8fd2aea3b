"""Calls of the server in the tests of isolation: buckets, packages, jobs and their logs."""

import io
import tarfile
import urllib.request

from e2e.support import FINAL, good


def cancel(scene, name):
    good(scene.server.call("POST", f"/v1/{name}:cancel", {}))
    scene.server.wait_for(f"/v1/{name}", FINAL)


def read_logs(scene, name):
    return f"{scene.server.log_of(name)}\n{scene.server.output()[-2000:]}"


def make_bucket(scene, project, name):
    good(scene.server.call("POST", f"/storage/v1/b?project={project}", {"name": name}))


def upload(scene, bucket, name, data):
    request = urllib.request.Request(
        f"{scene.server.url}/upload/storage/v1/b/{bucket}/o?uploadType=media&name={name}",
        data=data,
        headers={"Authorization": f"Bearer {scene.server.token}"},
        method="POST",
    )
    with urllib.request.urlopen(request, timeout=60):
        return f"gs://{bucket}/{name}"


def archive(files):
    """A source distribution, by hand."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as file:
        for path, content in files.items():
            member = tarfile.TarInfo(f"trapped-1/{path}")
            member.size = len(content)
            file.addfile(member, io.BytesIO(content))
    return data.getvalue()


def submit(scene, project, spec):
    """A job of one replica."""
    pool = {"machineSpec": {"machineType": "n1-standard-4"}, "replicaCount": "1", **spec}
    document = {"displayName": "job", "jobSpec": {"workerPoolSpecs": [pool]}}
    path = f"/v1/projects/{project}/locations/us-central1/customJobs"
    return good(scene.server.call("POST", path, document))["name"]
