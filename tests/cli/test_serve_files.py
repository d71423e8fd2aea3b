"""What a server makes in its data directory, while it serves and while a job of it runs."""

import os
import stat
import urllib.request

import pytest

from cli.conftest import CONFIG, end_jobs
from server_process import ServerProcess

#: Given to jobs, which may be other users: the notice of their end, the names of replicas, the
#: resolver of their network, and the profile of their shells.
GIVEN = ("progress/notice", "hosts", "resolv.conf", "passwd", "profile")
#: Anybody may read these who gets into the directory.
PUBLIC = {"server.json", "tls/ca.pem", "tls/server.pem", "tls/ca-bundle.pem", "tls/gateway.pem"}
#: What jobs read of the gateway, and where it is.
PUBLIC |= {"gateway.json", "gateway/shown", "gateway/shown/boto.cfg", "gateway/shown/ca-bundle.pem"}
PUBLIC |= {"gateway/shown/.curlrc", "gateway/shown/ca.pem"}
JOB = {
    "jobId": "j1",
    "trainingInput": {
        "region": "us-central1",
        "scaleTier": "CUSTOM",
        "masterType": "n1-standard-4",
        "masterConfig": {
            "imageUri": "registry.test/x",
            "containerCommand": ["python", "-c", "open('made', 'w'); print('up', flush=True)"],
        },
    },
}


@pytest.fixture
def data(tmp_path):
    """As an older release left it."""
    folder = tmp_path / "data"
    (folder / "buckets" / "old").mkdir(parents=True)
    for path in (folder, folder / "buckets", folder / "buckets" / "old"):
        path.chmod(0o755)
    (folder / "config.toml").write_text(CONFIG)
    return folder


def umask(pid):
    with open(f"/proc/{pid}/status") as file:  # noqa: PTH123 - the kernel's
        return next(line.split()[1] for line in file if line.startswith("Umask:"))


def open_paths(data):
    """Files and folders that are not their owner's alone, but for buckets and a job's /tmp.

    Replicas of every user read the trainer library and the tools. A replica that is another user
    passes through the root that it sees and through its home; both lie in closed folders.
    """
    left_out = ("buckets", "trainer-library", "replica-tools", "tmp", "root", "machines")
    paths = set()
    for folder, folders, files in os.walk(data):
        folders[:] = [name for name in folders if name not in left_out]
        for path in (os.path.join(folder, name) for name in (*folders, *files)):  # noqa: PTH118
            mode = os.lstat(path).st_mode
            if mode & 0o077 and not stat.S_ISLNK(mode):
                paths.add(os.path.relpath(path, data))
    return paths


def test_all_that_a_server_makes_is_its_own(data):
    server = ServerProcess(data).start()
    try:
        assert umask(server.pid) == "0077"
        server.call("POST", "/storage/v1/b?project=local", {"name": "new"})
        upload = f"{server.url}/upload/storage/v1/b/new/o?uploadType=media&name=a/b"
        headers = {"Authorization": f"Bearer {server.token}"}
        with urllib.request.urlopen(urllib.request.Request(upload, b"x", headers)):
            pass
        assert server.call("POST", "/v1/projects/local/jobs", JOB)[0] == 200
        server.wait_for("/v1/projects/local/jobs/j1", {"SUCCEEDED"})
        assert stat.S_IMODE(data.stat().st_mode) == 0o700
        # the configuration and the log of this test are not the server's
        mine = {"config.toml", "serve.log"}
        job_files = {path for path in open_paths(data) if path.endswith(GIVEN)}
        assert open_paths(data) - job_files - mine <= PUBLIC
        assert stat.S_IMODE((data / "buckets/new/a/b").stat().st_mode) == 0o664
        assert stat.S_IMODE((data / "buckets/old").stat().st_mode) == 0o750
        assert list(data.glob("jobs/*/1/work/made"))
        assert f"removed other users' access to {data} and " in server.output()
    finally:
        end_jobs(server)
        server.stop()
