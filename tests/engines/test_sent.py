"""What was sent for an attempt is found in its folder, and nowhere else."""

from pathlib import Path

import pytest

from trainshed.engines.supervise.record.folder import AttemptFolder
from trainshed.engines.supervise.record.sent import PLAN, save, sent


@pytest.fixture
def folder(tmp_path):
    folder = AttemptFolder(str(tmp_path / "7" / "1"))
    folder.make()
    return folder


def test_nothing_was_sent(folder):
    assert sent(folder) == {}
    assert sent(AttemptFolder("/nowhere/7/1")) == {}


def test_the_plan_and_what_was_kept_beside_it(folder):
    Path(folder.plan).write_text('{"job": "j"}')
    save(folder, {"command": "sbatch 'a b'"})
    assert sent(folder) == {PLAN: '{\n  "job": "j"\n}', "command": "sbatch 'a b'"}


def test_a_link_is_not_followed(folder, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text('{"word": "s3cr3t"}')
    Path(folder.plan).symlink_to(secret)
    with pytest.raises(OSError, match="link"):
        sent(folder)
