"""What jobs of tests run in pods, and the packages and objects that they use."""

from urllib.parse import quote
from urllib.request import Request

from e2e import fleet
from e2e.interrupting import upload
from slurm.support import WAITS
from trainshed.engines.kubernetes import names
from trainshed.workbench.sdists import build_sdist

FOLDER = f"/gcs/{fleet.BUCKET}"
"""The bucket of results in pods."""


def waits_for(name):
    """A program that ends when the bucket has an object of the name."""
    return WAITS.format(file=f"{FOLDER}/{name}")


def put_object(server, name, text=""):
    """Let the bucket of results have an object."""
    (server.data_dir / "buckets" / fleet.BUCKET / name).write_text(text)


def put_package(server, folder, code):
    """Upload a package named ``packaged`` whose module ``packaged.task`` has the code; its URI."""
    package = folder / "packaged"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "task.py").write_text(code)
    return upload(server, build_sdist(package, folder))


def list_pods(cluster, uid):
    """The pods of a job, by its number."""
    rows, _ = cluster.store.list("Pod", "default")
    return [pod for pod in rows if pod["metadata"]["labels"].get(names.JOB) == str(uid)]


def read_object(server, name):
    """The bytes of an object of the bucket of results, by the storage API."""
    path = f"/download/storage/v1/b/{fleet.BUCKET}/o/{quote(name, safe='')}?alt=media"
    request = Request(server.url + path, headers={"Authorization": f"Bearer {server.token}"})
    with server.opened(request) as answer:
        return answer.read()
