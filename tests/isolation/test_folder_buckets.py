"""A job plants links in the folder of a ``file://`` bucket: no caller gets what they lead to."""

import urllib.error

import pytest

from e2e.support import FINAL, good
from isolation.calls import submit, upload
from isolation.expected import USERS
from isolation.scene import ALPHA, folder_of_bucket, program, staged

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

PLANTS = """\
import os
for name, leads_to in (("token", {token!r}), ("shadow", "/etc/shadow"), ("etc", "/etc")):
    os.symlink(leads_to, {folder!r} + "/" + name)
"""


def test_links_of_a_job_in_a_folder_bucket_lead_nowhere():
    with staged(USERS) as scene:
        folder = folder_of_bucket(scene)
        native = "/trainshed/v1/buckets/scratch:adopt"
        good(scene.server.call("POST", native, {"project": ALPHA}))
        code = PLANTS.format(token=str(scene.data / "admin-token"), folder=str(folder))
        name = submit(scene, ALPHA, program(scene, "-c", code))
        scene.server.wait_for(f"/v1/{name}", FINAL)
        assert (folder / "shadow").is_symlink()
        for stolen in ("token", "shadow", "etc%2Fpasswd"):
            status, _ = scene.server.call("GET", f"/storage/v1/b/scratch/o/{stolen}?alt=media")
            assert status == 404
        objects = good(scene.server.call("GET", "/storage/v1/b/scratch/o"))
        assert objects.get("items", []) == []
        with pytest.raises(urllib.error.HTTPError) as refused:
            upload(scene, "scratch", "etc/ld.so.preload", b"of the job")
        with refused.value as answer:
            assert answer.code == 403
        upload(scene, "scratch", "a/object", b"bytes")
        owners = {path.lstat().st_uid for path in (folder / "a" / "object", folder / "shadow")}
        assert len(owners) == 1, "the job's user made the link, and the server stored as that user"
        assert 0 not in owners
