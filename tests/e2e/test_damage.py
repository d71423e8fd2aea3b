"""Files of an attempt that somebody has damaged: what is left of them is read, and told."""

from contextlib import contextmanager

import pytest

from e2e.chaos import (
    check_count,
    check_ran_once,
    counting,
    doctor,
    records,
    replica_texts,
    uid_of,
)
from e2e.support import (
    FINAL,
    PROJECT,
    custom_job,
    good,
    native,
    processes_of,
    serving,
    submit,
    wait_until,
)

#: Its jobs run without walls (conftest.py).
JOBS_TELL_BY_FILES = True

pytestmark = pytest.mark.slow

#: A line in the middle of a log, of many.
DAMAGED = 150
LINES_MIN = 300
FILLINGS = (b"\xfe", b"\0", b"[", b"9")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("damage") / "data") as server:
        yield server


def attempt_of(server, name):
    return server.data_dir / "jobs" / uid_of(name) / "1"


def segment_of(server, name):
    """The first one; a job that counts for minutes has more."""
    return attempt_of(server, name) / "log" / "00000001.jsonl"


def last_segment_of(server, name):
    return max((attempt_of(server, name) / "log").iterdir())


def counted(server, go, count=LINES_MIN, status=0):
    """A job that has written so many lines."""
    name = submit(server, custom_job("counts", counting(go, status=status)))
    wait_for_lines(server, name, count)
    return name


def wait_for_lines(server, name, count=LINES_MIN):
    wait_until(lambda: len(replica_texts(server, name)) >= count)


@contextmanager
def edited(path):
    """The bytes of a file, to be changed in place: nobody who has it open loses it."""
    with path.open("r+b") as file:
        data = bytearray(file.read())
        before = len(data)
        yield data
        assert len(data) <= before
        file.seek(0)
        file.write(data)
        if len(data) < before:
            file.truncate()


def overwrite_line(path, words, filling=b"\xfe"):
    """Make noise of the line that has these words, its newline left as it is."""
    with path.open("r+b") as file:
        data = file.read()
        place = data.index(words)
        start = data.rfind(b"\n", 0, place) + 1
        file.seek(start)
        file.write(filling * (data.index(b"\n", place) - start))


def line_of(number):
    return f'"{number}", ""]'.encode()


def polled_texts(server, name):
    """What gcloud reads, page by page."""
    document = {
        "resourceNames": [f"projects/{PROJECT}"],
        "filter": f'resource.type="ml_job" AND resource.labels.job_id="{uid_of(name)}"'
        ' AND resource.labels.task_name="workerpool0-0"',
        "orderBy": "timestamp asc",
        "pageSize": 97,
    }
    texts = []
    while True:
        page = good(server.call("POST", "/v2/entries:list", document))
        texts += [
            entry.get("textPayload") or entry["jsonPayload"]["message"]
            for entry in page.get("entries", [])
        ]
        if not page.get("nextPageToken"):
            return texts
        document["pageToken"] = page["nextPageToken"]


def check_all_but(server, name, damaged):
    """Every line is read, each once, but those that were damaged."""
    for texts in (replica_texts(server, name), polled_texts(server, name)):
        *numbers, _ = texts
        last = int(numbers[-1])
        expected = [str(number) for number in range(1, last + 1) if number not in damaged]
        assert numbers == expected


def test_a_log_that_is_damaged_while_it_is_written(server, tmp_path):
    go = tmp_path / "go"
    name = counted(server, go)
    segment = segment_of(server, name)
    overwrite_line(segment, line_of(DAMAGED))
    with segment.open("ab") as file:
        file.write(b"somebody else was here\n" + b"\0" * 100 + b"\n")
    go.touch()
    assert server.wait_for(f"/v1/{name}", FINAL)["state"] == "JOB_STATE_SUCCEEDED"
    check_ran_once(server, name)
    check_all_but(server, name, {DAMAGED})
    code, failures = doctor(server)
    assert code == 1
    subjects = [finding["subject"] for finding in failures["logs-are-whole"]["findings"]]
    own = [subject for subject in subjects if subject.startswith(f"{uid_of(name)}/1")]
    assert len(own) == 3, subjects


def test_a_log_whose_beginning_is_damaged(server, tmp_path):
    job = custom_job("counts", counting(tmp_path / "go"))
    names = [submit(server, job) for _ in FILLINGS]
    for name in names:
        wait_for_lines(server, name)
    (tmp_path / "go").touch()
    for name, filling in zip(names, FILLINGS, strict=True):
        server.wait_for(f"/v1/{name}", FINAL)
        overwrite_line(segment_of(server, name), b"[", filling)  # the first one
        for number in (1, 2, DAMAGED):
            overwrite_line(segment_of(server, name), line_of(number), filling)
    server.kill()
    server.start()
    for name in names:
        check_all_but(server, name, {1, 2, DAMAGED})


def test_a_log_whose_end_is_torn(server, tmp_path):
    go = tmp_path / "go"
    name = counted(server, go)
    go.touch()
    server.wait_for(f"/v1/{name}", FINAL)
    whole = replica_texts(server, name)
    check_count(whole)
    with edited(last_segment_of(server, name)) as data:
        del data[-5:]
    texts = replica_texts(server, name)
    assert texts == whole[: len(texts)]
    assert len(whole) - len(texts) <= 1


NOISE = (
    b'\n{"is": "Ended", "outc',
    b"\n\0\0\0\0\n",
    b'\n[1, 2]\n"words"\n5\nnull\n',
    b'\n{"is": "Ended"}\n{"is": "Ended", "outcome": 5}\n{"is": 5}\n{}\n',
    b"\n\xff\xfe\n",
)


def test_records_that_are_damaged_while_the_job_runs(server, tmp_path):
    """What is told later is told all the same, to this server and to the next one."""
    jobs = {}
    for number, noise in enumerate(NOISE):
        go = tmp_path / str(number)
        name = counted(server, go, 1, status=3 * (number % 2))
        wait_until(lambda name=name: records(attempt_of(server, name), "Ready"))
        with (attempt_of(server, name) / "records.jsonl").open("ab") as file:
            file.write(noise)
        jobs[name] = go
    server.kill()
    server.start()
    for go in jobs.values():
        go.touch()
    for number, name in enumerate(jobs):
        state = "FAILED" if number % 2 else "SUCCEEDED"
        assert server.wait_for(f"/v1/{name}", FINAL)["state"] == f"JOB_STATE_{state}"
        check_ran_once(server, name)
        check_count(replica_texts(server, name))


def test_a_job_whose_first_records_are_gone_is_found_by_its_lock(server, tmp_path):
    """And can be cancelled: its supervisor looks for orders though nobody can tell it of one."""
    go = tmp_path / "go"
    names = [counted(server, go, 1) for _ in range(2)]
    for name in names:
        wait_until(lambda name=name: records(attempt_of(server, name), "Ready"))
    server.kill()
    for name in names:
        with edited(attempt_of(server, name) / "records.jsonl") as data:
            data[:] = b"\0" * len(data)
    server.start()
    wait_until(lambda: len(processes_of(server)) == 1 + 2 * len(names))
    good(server.call("POST", f"/v1/{names[0]}:cancel", {}))
    assert server.wait_for(f"/v1/{names[0]}", FINAL)["state"] == "JOB_STATE_CANCELLED"
    go.touch()
    assert server.wait_for(f"/v1/{names[1]}", FINAL)["state"] == "JOB_STATE_SUCCEEDED"
    assert all(native(server, name)["attempt"] == 1 for name in names)
    check_count(replica_texts(server, names[1]))


def test_an_end_whose_record_is_torn_is_known_by_the_other(server, tmp_path):
    """It is told twice: before anything is torn down, and when nothing of the job lives."""
    go = tmp_path / "go"
    names = [counted(server, go, 1) for _ in range(2)]
    paths = [attempt_of(server, name) for name in names]
    server.kill()
    go.touch()
    for path in paths:
        wait_until(lambda path=path: records(path, "Ended"))
    wait_until(lambda: not processes_of(server))
    with edited(paths[0] / "records.jsonl") as data:
        del data[data.index(b'{"is": "Ended"') + 30 :]
    overwrite_line(paths[1] / "records.jsonl", b'{"is": "Decided"')
    server.start()
    for name in names:
        assert server.wait_for(f"/v1/{name}", FINAL)["state"] == "JOB_STATE_SUCCEEDED"
        check_ran_once(server, name)
        check_count(replica_texts(server, name))
