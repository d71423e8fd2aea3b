"""A server with fake GPUs gives each job its own, of whatever type it asks for."""

import pytest

from e2e.support import custom_job, log_lines, ml_job, serving, submit

#: Its jobs run without walls (conftest.py).
JOBS_TELL_BY_FILES = True

pytestmark = pytest.mark.slow

SUCCEEDED = {"SUCCEEDED", "JOB_STATE_SUCCEEDED"}

#: Fails where another job has one of its devices at the same time.
TAKE = """
import fcntl, os
devices = os.environ["CUDA_VISIBLE_DEVICES"].split(",")
held = [open(os.path.join({folder!r}, uuid), "w") for uuid in devices]
for file in held:
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
print("DEVICES", *devices)
"""


def test_jobs_that_need_more_than_there_is_take_turns(tmp_path, monkeypatch):
    monkeypatch.setenv("TRAINSHED_LOCK_DIR", str(tmp_path / "locks"))
    code = TAKE.format(folder=str(tmp_path))
    flags = ("--fleet-policy", "best-effort", "--fake-gpus", "3")
    with serving(tmp_path / "data", *flags) as server:
        names = [submit(server, ml_job(f"turn_{n}", code, gpus=2)) for n in range(3)]
        names.append(submit(server, custom_job("turn", code, gpus=2)))
        for name in names:
            server.wait_for(f"/v1/{name}", SUCCEEDED)
        for name in names:
            texts = [line["message"] for line in log_lines(server, name)]
            (devices,) = (text.split()[1:] for text in texts if text.startswith("DEVICES"))
            assert len(set(devices)) == 2
