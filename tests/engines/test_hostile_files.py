"""A program puts links, pipes, folders and huge files where supervisor and server read and write.

Nothing from outside is read, nothing is made outside, nobody waits, and the end is told.
"""

import json
import os
from dataclasses import replace

import pytest

from engines.attempts import KEY, ended, folder, order, started
from engines.events import event, record, simple
from engines.support import FOREVER
from engines.trials import metric_file, trial, whole
from planning.test_achieved import DOCUMENT
from trainshed.engines.supervise.record.folder import AttemptFolder, read_json
from trainshed.engines.supervise.record.observe import ran_s
from trainshed.engines.supervise.watch.event_folders import EventFolder
from trainshed.engines.supervise.watch.hypertune_file import MetricFile
from trainshed.engines.supervise.watch.watch_checkpoints import CheckpointWatch

TASK = "master-replica-0"

#: Puts something in the place of each file, and in the place of each folder.
PLANT = """
import os, shutil
def gone(path):
    shutil.rmtree(path) if os.path.isdir(path) and not os.path.islink(path) else (
        os.path.lexists(path) and os.unlink(path))
for path in {files!r}:
    gone(path)
    {act}
for path in {folders!r}:
    gone(path)
    os.symlink({outside!r}, path)
print("ready", flush=True)
"""
ACTS = {
    "link": "os.symlink({outside!r} + '/' + os.path.basename(path), path)",
    "pipe": "os.mkfifo(path)",
    "folder": "os.makedirs(path + '/below')",
    "huge": "open(path, 'w').truncate(1 << 40)",
}


@pytest.fixture
def outside(tmp_path):
    """What each of the files would be if it were the program's own."""
    path = tmp_path / "outside"
    path.mkdir()
    (path / "reduction.json").write_text(json.dumps(DOCUMENT))
    (path / "output.metrics").write_text('{"loss": 1.0, "global_step": 1}\n')
    (path / "events.tfevents").write_bytes(record(event(simple("loss", 2.0))))
    (path / "notice").write_text("not ours")
    (path / TASK).write_text("not ours")
    return path


def content(place):
    return {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in place.iterdir()}


def planted(root, mark, outside, act=None):
    """A trial, with summaries in a bucket, whose program plants and then waits to be stopped.

    Without ``act`` it is folders that it replaces.
    """
    own, logs = folder(root), root.parent / "buckets" / "bkt" / "logs"
    logs.mkdir(parents=True)
    names = ("notice", "reduction.json", TASK)
    paths = [*(own / "progress" / name for name in names), metric_file(root)]
    code = PLANT.format(
        act=(act or "pass").format(outside=str(outside)),
        files=[str(path) for path in (*paths, logs / "events.tfevents") if act],
        folders=[str(path) for path in (own / "progress", own / "hypertune", logs) if not act],
        outside=str(outside),
    )
    plan = trial(root, mark, f"{code}\n{FOREVER}", summaries=[logs])
    environment = replace(plan.environment, buckets=str(root.parent / "buckets"))
    return replace(plan, environment=environment)


def check_unharmed(root, plan, outside):
    """Run it, stop it, and look at it as a server does."""
    before = content(outside)
    engine = started(root, plan)
    engine.stop(KEY, order(1.0))
    observation = ended(engine)
    assert observation.reduction is None
    assert content(outside) == before
    assert whole(root).reports == ()
    assert ran_s(AttemptFolder(folder(root))) is not None
    return whole(root).found


@pytest.mark.parametrize("kind", ACTS)
def test_whatever_lies_in_a_file_s_place_the_end_is_told(root, mark, outside, kind):
    plan = planted(root, mark, outside, ACTS[kind])
    description = check_unharmed(root, plan, outside)
    reasons = {"link": "it is a symbolic link", "huge": "no metrics"}
    assert reasons.get(kind, "it is not a file") in description


def test_folders_that_were_replaced_by_links_lead_nowhere(root, mark, outside):
    check_unharmed(root, planted(root, mark, outside), outside)


def test_a_link_at_a_bucket_s_top_is_the_administrators_and_below_it_nobodys(tmp_path, outside):
    buckets, disk = tmp_path / "buckets", tmp_path / "disk"
    buckets.mkdir()
    (disk / "here").mkdir(parents=True)
    (buckets / "bkt").symlink_to(disk)
    roots = (str(buckets),)
    folders = [EventFolder(str(buckets / "bkt" / name), roots) for name in ("here", "link")]
    (disk / "link").symlink_to(outside)
    (disk / "here" / "events.tfevents").write_bytes(record(event(simple("loss", 3.0))))
    (disk / "here" / "ckpt").write_text("weights")
    sources = [
        source
        for event_folder in folders
        for source in event_folder.read(float("inf"), is_last=True)
    ]
    assert [report.value for source in sources for report in source.reports] == [3.0]
    watch = CheckpointWatch([str(buckets / "bkt" / "link")], roots)
    assert watch.warning() is None
    watch = CheckpointWatch([str(buckets / "bkt" / "here")], roots)
    assert "none of the 2 files" in watch.warning()
    watch.close()
    file = MetricFile(str(buckets / "bkt" / "link" / "output.metrics"), roots)
    assert file.read() == []
    assert "could not be read" in file.description()


@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
def test_what_is_no_file_is_no_json(tmp_path, outside, kind):
    path = tmp_path / "stop"
    exec(ACTS[kind].format(outside=str(outside)), {"os": os, "path": str(path)})  # noqa: S102
    with pytest.raises(ValueError, match="is not a file"):
        read_json(str(path))


def test_a_record_of_a_million_fields_takes_no_time(tmp_path):
    """Its fields are empty: two bytes each."""
    folder_ = tmp_path / "logs"
    watch = EventFolder(str(tmp_path))
    folder_.mkdir()
    (folder_ / "events.tfevents").write_bytes(record(b"\x1a\x00" * 500_000))
    assert [source.reports for source in watch.read(float("inf"), is_last=True)] == [[]]
    assert "1 damaged" in watch.description()
