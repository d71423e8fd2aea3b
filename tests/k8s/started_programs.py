"""Programs of pods that count their starts in a bucket, and wait for a file of it."""

from collections import Counter

from e2e.chaos import counting
from e2e.fleet import BUCKET

_BUCKET = f"/gcs/{BUCKET}"
#: The lock of a replica is held until its program ends; the next attempt must get it at once.
_COUNTS_ITS_START = f"""\
import fcntl, os, time
for folder in ("starts", "locks"):
    os.makedirs(f"{_BUCKET}/{{folder}}", exist_ok=True)
uid, task = os.environ["TRAINSHED_JOB"].replace("/", "-"), os.environ["TRAINSHED_TASK"]
with open(f"{_BUCKET}/starts/{{uid}}", "a") as file:
    file.write(task + chr(10))
lock = open(f"{_BUCKET}/locks/{{uid.split('-')[0]}}-{{task}}", "a")
try:
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
except OSError:
    open(f"{_BUCKET}/beside", "a").write(uid)
print("began", flush=True)
"""


def counted_start(code=""):
    """A program that counts its start, says that it began, and goes on with ``code``."""
    return _COUNTS_ITS_START + code


def waits_for(name):
    """A program that counts its start and ends when the bucket has a file of this name."""
    return counted_start(f'while not os.path.exists("{_BUCKET}/{name}"):\n    time.sleep(0.05)\n')


def counts_until(name, *, status=0):
    """A program that counts its start, and counts until the bucket has a file of this name."""
    quietly = _COUNTS_ITS_START.replace('print("began", flush=True)\n', "")
    return quietly + counting(f"{_BUCKET}/{name}", status=status)


def bucket_of(server):
    """The folder of the jobs' bucket, which ``fleet.make_bucket`` has made."""
    return server.data_dir / "buckets" / BUCKET


def ran_beside(bucket):
    """Whether a program ever started while that of another attempt of its replica ran."""
    return (bucket / "beside").exists()


def read_starts(bucket):
    """How often each replica's program was started: a counter by UID-ATTEMPT and task."""
    return Counter(
        (path.name, task) for path in bucket.glob("starts/*") for task in path.read_text().split()
    )
