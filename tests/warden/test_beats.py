"""What a warden tells of its replica with each heartbeat, and what its launcher makes of it."""

import json
from pathlib import Path

import pytest

from trainshed.engines.supervise.kernel.limits import START_USAGE, Usage
from trainshed.engines.supervise.record.folder import AttemptFolder
from trainshed.engines.supervise.record.gpu_file import GpuFigures, read_own_gpus
from trainshed.engines.warden import program_files
from trainshed.engines.warden.beats import Beat, compose_beat, parse_beat
from trainshed.engines.warden.connection import WardenConnection
from trainshed.engines.warden.protocol import WARDEN_FRAME_MAX
from trainshed.engines.warden.roster import join_names, list_gpus
from trainshed.model.trainer_contract import STEPS_FILE

NAME = "workerpool0-0"
USAGE = Usage(cpu_ns=5, memory_bytes=6, read_bytes=7, written_bytes=8, tasks=9, at_s=1.0)
GPUS = {"GPU-1": GpuFigures(0.5, 1.0, 300.0, 60.0, 7e6)}
FILES = {STEPS_FILE: '{"steps": 3}'}
FULL = Beat(USAGE, 11, b'{"step": 3}', GPUS, FILES)


def sent(beat):
    """The beat as it comes out of the wire."""
    return parse_beat(json.loads(json.dumps(compose_beat(beat))))


def test_a_beat_arrives_whole_with_the_moment_of_its_measures():
    assert sent(FULL) == FULL
    arrived = sent(FULL._replace(usage=USAGE._replace(at_s=None)))
    assert arrived.usage.at_s > 1.0
    assert arrived._replace(usage=arrived.usage._replace(at_s=1.0)) == FULL


def test_what_is_not_measured_is_not_sent():
    assert compose_beat(Beat()) == {"is": "beat", "usage": {}}
    assert sent(Beat()) == Beat()
    assert sent(Beat(Usage(tasks=0))).usage.tasks == 0


@pytest.mark.parametrize("usage", [7, [1], {"cpu_ns": "x"}, {"cpu_ns": None}, {"at_s": []}])
def test_nonsense_is_refused_as_any_malformed_message(usage):
    with pytest.raises((ValueError, TypeError, KeyError)):
        parse_beat({"is": "beat", "usage": usage})


def test_a_report_of_no_text_does_not_break_the_wire():
    assert sent(Beat(report=b"\xff\x00{")).report == b"\xef\xbf\xbd\x00{"


@pytest.mark.parametrize("character", ["\x01", '"', "7"])
def test_no_file_of_a_program_makes_a_message_that_ends_its_warden(tmp_path, character):
    """A character may need six in a message."""
    folder = AttemptFolder(tmp_path)
    Path(folder.shared).mkdir()
    for path in program_files.list_paths(folder, NAME).values():
        Path(path).write_text(character * 2**18)
    rows = ",".join(f'"{number}{"é" * 120}":{{}}' for number in range(256))
    Path(f"{tmp_path}/gpus").write_text(f'{{"at":1,"gpus":{{{rows}}}}}'[: 2**16])
    report, gpus = character.encode() * 2**16, read_own_gpus(f"{tmp_path}/gpus", (), 1.0)
    beat = FULL._replace(report=report, gpus=gpus, files=program_files.read_texts(folder, NAME))
    assert len(gpus) == 256
    assert len(json.dumps(compose_beat(beat))) < WARDEN_FRAME_MAX


def test_only_a_new_time_of_the_programs_file_is_a_heartbeat_and_an_old_report_stays():
    warden = WardenConnection(0)
    assert warden.take_beat(FULL, 0.0)
    assert not warden.take_beat(Beat(USAGE, 11), 5.0)
    assert (warden.report, warden.usage) == (b'{"step": 3}', USAGE)
    assert warden.take_beat(Beat(USAGE, 12, b"7"), 10.0)
    assert warden.report == b"7"


def test_the_usage_of_a_replica_that_has_ended_stays():
    warden = WardenConnection(0)
    warden.take_beat(sent(FULL), 0.0)
    warden.take_beat(sent(Beat()), 5.0)
    assert warden.usage[:5] == USAGE[:5]
    assert warden.usage.at_s is not None


def test_what_a_short_program_has_used_counts_from_its_start():
    warden = WardenConnection(0)
    warden.take_beat(sent(Beat(START_USAGE._replace(at_s=5.0))), 0.0)
    warden.take_beat(sent(Beat(USAGE)), 0.0)
    assert warden.usage_at_start == START_USAGE._replace(at_s=5.0)
    assert warden.usage[:5] == USAGE[:5]


def test_gpus_of_a_warden_that_is_silent_or_gone_are_not_measured():
    wardens = [WardenConnection(index) for index in range(3)]
    wardens[0].take_beat(FULL, 0.0)
    wardens[1].take_beat(FULL._replace(gpus={"GPU-2": GPUS["GPU-1"]}), 20.0)
    named = [*zip("abc", wardens, strict=True)]
    tasks = {uuid: figures.task for uuid, figures in list_gpus(named, 20.0).items()}
    assert tasks == {"GPU-1": "a", "GPU-2": "b"}
    assert list_gpus(named, 40.0).keys() == {"GPU-2"}
    wardens[1].is_gone = True
    assert list_gpus(named, 40.0) == {}


def test_names_of_many_replicas_are_cut():
    assert join_names(["a", "b"]) == "a, b"
    assert join_names(list("abcdefg")) == "a, b, c, d, e and 2 more"


def test_files_of_a_program_replace_older_ones_in_the_attempts_folder(tmp_path):
    folder = AttemptFolder(tmp_path)
    Path(folder.shared).mkdir()
    for text in ('{"steps": 3}', '{"steps": 5}'):
        program_files.write_texts(folder, NAME, {STEPS_FILE: text, "OTHER": "x"})
        assert program_files.read_texts(folder, NAME) == {STEPS_FILE: text}
    assert [path.name for path in Path(folder.shared).iterdir()] == [f"{NAME}.steps.json"]
    Path(folder.steps(NAME)).unlink()
    Path(folder.steps(NAME)).symlink_to("/etc/hostname")
    assert program_files.read_texts(folder, NAME) == {}


@pytest.mark.parametrize(
    ("text", "has_one"),
    [
        (None, False),
        ('{"checkpoint_at": 0.0}', False),
        ('{"checkpoint_at": 1764000000.5}', True),
        ("{}", False),
        ("[]", False),
        ('{"checkpoint_at": "now"}', False),
        ("no JSON", False),
    ],
)
def test_a_program_has_a_checkpoint_once_it_has_reported_one(tmp_path, text, has_one):
    folder = AttemptFolder(tmp_path)
    Path(folder.shared).mkdir()
    if text is not None:
        Path(folder.steps(NAME)).write_text(text)
    assert program_files.has_checkpoint(folder, NAME) is has_one


def test_files_are_due_with_the_first_checkpoint_and_once_a_minute(tmp_path):
    folder = AttemptFolder(tmp_path)
    Path(folder.shared).mkdir()
    due = program_files.DueFiles(0.0)

    def read(now_s, text):
        Path(folder.steps(NAME)).write_text(text)
        return due.read(folder, NAME, now_s).get(STEPS_FILE)

    none, first, second = (f'{{"checkpoint_at": {at}}}' for at in (0.0, 5.0, 6.0))
    assert read(1.0, none) is None
    assert read(6.0, first) == first
    assert read(7.0, second) is None
    assert read(65.0, second) is None
    assert read(66.0, second) == second
    assert read(67.0, second) is None
