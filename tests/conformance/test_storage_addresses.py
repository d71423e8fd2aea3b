"""Google's storage clients with a token for one bucket in their address, against a real server."""

import os
import subprocess
from pathlib import Path

import pytest

from conformance.conftest import PROJECT

GOOGLE_PYTHON = Path(__file__).parents[2] / ".venv-google/bin/python"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not GOOGLE_PYTHON.exists(), reason="make test installs the clients"),
]

CODE = """
import os
import gcsfs
from google.api_core.exceptions import Forbidden, NotFound
from google.cloud import storage

client = storage.Client(project="demo-proj")
bucket = client.create_bucket("addressed-bkt")
content = os.urandom(9 << 20)
bucket.blob("dir/large").upload_from_string(content)  # a session, whose address has the token
assert bucket.get_blob("dir/large").download_as_bytes() == content  # by its media link
assert [each.name for each in client.list_buckets()] == ["addressed-bkt"]
assert not client.bucket("stage-bkt").exists()
try:
    client.create_bucket("another-bkt")
    raise SystemExit("made another bucket")
except Forbidden as error:
    assert "addressed-bkt only" in error.message

fs = gcsfs.GCSFileSystem(token="anon", project="demo-proj", use_listings_cache=False)
assert fs.cat("addressed-bkt/dir/large") == content
with fs.open("addressed-bkt/more/pieces", "wb", block_size=2**18) as file:
    file.write(content[: 2**20])
assert fs.ls("addressed-bkt") == ["addressed-bkt/dir", "addressed-bkt/more"]
assert not fs.exists("stage-bkt/x")
fs.rm("addressed-bkt/dir", recursive=True)
assert fs.find("addressed-bkt") == ["addressed-bkt/more/pieces"]
"""


def test_they_use_their_bucket_and_see_no_other(server):
    path = f"/trainshed/v1/projects/{PROJECT}/bucketTokens"
    status, made = server.call("POST", path, {"bucket": "addressed-bkt"})
    assert status == 200, made
    done = subprocess.run(
        [GOOGLE_PYTHON, "-W", "ignore", "-c", CODE],
        env={
            **os.environ,
            **server.certificates,
            "STORAGE_EMULATOR_HOST": f"{server.url}/as/{made['token']}",
            "GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT": "false",
        },
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
