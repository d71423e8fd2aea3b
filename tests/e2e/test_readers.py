"""Many who read a long log at once: the server stays small, and answers others meanwhile."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.request import Request

import pytest

from e2e.support import FINAL, PROJECT, custom_job, good, serving, submit

pytestmark = [pytest.mark.full, pytest.mark.timeout(600)]

JOBS_TELL_BY_FILES = True

READERS = 8
LINE_BYTES = 50_000_000
PRINTS = f"print('x' * {LINE_BYTES})"
PEAK_BYTES_MAX = 250_000_000


def peak_bytes(pid):
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


def streamed(server, name, query):
    """How many bytes the answer has; they are not kept."""
    path = f"/trainshed/v1/projects/{PROJECT}/jobs/{name.rpartition('/')[2]}/logs{query}"
    request = Request(server.url + path, headers={"Authorization": f"Bearer {server.token}"})
    with server.opened(request) as answer:
        return sum(map(len, iter(lambda: answer.read(1 << 16), b"")))


def paged(server, name, _):
    query = {"filter": f'resource.labels.job_id="{name.rpartition("/")[2]}"', "pageSize": 1000}
    length, more = 0, {}
    while True:
        document = {"resourceNames": [f"projects/{PROJECT}"], **query, **more}
        page = good(server.call("POST", "/v2/entries:list", document))
        length += sum(len(entry["jsonPayload"]["message"]) for entry in page["entries"])
        if "nextPageToken" not in page:
            return length
        more = {"pageToken": page["nextPageToken"]}


@pytest.mark.parametrize("how", [(streamed, ""), (streamed, "?tail=10000"), (paged, "")])
def test_eight_readers_of_one_line_of_50_mb(tmp_path, how):
    read, query = how
    with serving(tmp_path / "data") as server:
        name = submit(server, custom_job("talks", PRINTS))
        server.wait_for(f"/v1/{name}", FINAL)
        with ThreadPoolExecutor(READERS) as pool:
            reading = [pool.submit(read, server, name, query) for _ in range(READERS)]
            while not all(future.done() for future in reading):
                good(server.call("GET", f"/v1/{name}"))
        assert min(future.result() for future in reading) >= LINE_BYTES
        assert peak_bytes(server.pid) < PEAK_BYTES_MAX
