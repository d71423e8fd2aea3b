"""A trainer is known by its code, and large folders beside it cost little."""

import hashlib

import pytest

from trainshed.workbench import trainer_digest as module
from trainshed.workbench.trainer_digest import changed, code_files, trainer_digest


@pytest.fixture
def trainer(tmp_path):
    folder = tmp_path / "trainer"
    (folder / "models").mkdir(parents=True)
    for name in ("task.py", "models/net.py", "models.py", "data.bin"):
        (folder / name).write_text(name)
    return folder


def test_code_counts_by_name_and_content(trainer):
    before = trainer_digest([trainer])
    (trainer / "data.bin").write_text("other data")
    assert trainer_digest([trainer]) == before
    (trainer / "models" / "net.py").write_text("other code")
    assert trainer_digest([trainer]) != before
    assert trainer_digest([]) == ""


def test_a_digest_is_what_it_was_in_files_that_were_written_before(trainer):
    expected = hashlib.sha256()
    for name in ("models/net.py", "models.py", "task.py"):
        expected.update(f"{name}\0".encode() + hashlib.sha256(name.encode()).digest())
    assert trainer_digest([trainer]) == expected.hexdigest()


def test_no_more_files_and_folders_are_looked_at_than_count(trainer, monkeypatch):
    monkeypatch.setattr(module, "_FILES_MAX", 2)
    assert [file.name for file in code_files([trainer])] == ["models/net.py", "models.py"]
    monkeypatch.setattr(module, "_FOLDERS_MAX", 1)
    assert [file.name for file in code_files([trainer])] == ["models.py", "task.py"]


def test_files_after_the_last_that_counts_are_not_even_listed(trainer, monkeypatch):
    (trainer / "zzz").mkdir()
    monkeypatch.setattr(module, "_FILES_MAX", 3)
    scandir, folders = module.os.scandir, []
    monkeypatch.setattr(
        module.os, "scandir", lambda path: folders.append(path.name) or scandir(path)
    )
    code_files([trainer])
    assert folders == ["trainer", "models"]


def test_a_large_file_is_read_in_pieces(trainer, monkeypatch):
    monkeypatch.setattr(module, "_PIECE_BYTES", 3)
    monkeypatch.setattr(module, "_BYTES_MAX", 10)
    (trainer / "task.py").write_text("0123456789abc")
    (file,) = code_files([trainer / "task.py"])
    assert file.digest == hashlib.sha256(b"0123456789").digest()


def test_what_has_changed_since_is_named_and_new_files_do_not_count(trainer):
    files = code_files([trainer])
    (trainer / "hparams.yaml").write_text("written by the trainer itself")
    assert changed(files) is None
    (trainer / "task.py").write_text("edited")
    assert changed(files) == trainer / "task.py"
    (trainer / "models" / "net.py").unlink()
    assert changed(files) == trainer / "models" / "net.py"
