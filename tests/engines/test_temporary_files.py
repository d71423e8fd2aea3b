"""Temporary files of programs where the data directory has a long name: sockets fit there too."""

import importlib.util
import os
import signal
from pathlib import Path

import pytest

from engines.attempts import (
    KEY,
    ended,
    engine_at,
    marked,
    order,
    read_answer,
    supervisor,
    texts,
    until,
)
from engines.isolating import isolation_of
from engines.support import wait_until
from trainshed.engines.isolation.compose import Isolation
from trainshed.engines.isolation.modes import CONTAINER, LANDLOCK, MODES, NONE
from trainshed.engines.supervise.record.folder import AttemptFolder
from trainshed.engines.supervise.short_tmp import SOCKET_NAME_BYTES_MAX, short_name
from trainshed.model.attempt import Phase
from trainshed.model.launch_plan import Owner

#: As multiprocessing makes one for each queue of a DataLoader's workers.
LISTENS = """
import os, tempfile
from multiprocessing.connection import Client, Listener
with Listener(None, "AF_UNIX") as listener:
    print(listener.address)
    with Client(listener.address), listener.accept():
        print("connected")
with tempfile.NamedTemporaryFile() as file:
    print(os.path.realpath(file.name), flush=True)
"""
FOREVER = LISTENS + "import time; print('ready', flush=True); time.sleep(600)"


@pytest.fixture
def deep(root):
    """A folder of attempts whose own names are longer than that of a socket may be."""
    path = root.with_name("d" * SOCKET_NAME_BYTES_MAX) / "jobs"
    path.mkdir(parents=True)
    return path


def launch(deep, mark, code, mode=LANDLOCK):
    isolation = Isolation(NONE) if mode == NONE else isolation_of(mode, deep)
    engine = engine_at(deep, isolation=isolation, pass_env=())
    engine.launch(KEY, marked(mark, code, owner=Owner(project="alpha", number=0)), ())
    return engine


def link_of(deep):
    """The short name of the folder of temporary files."""
    return Path(short_name(AttemptFolder(deep / str(KEY.uid) / str(KEY.attempt)).tmp))


@pytest.mark.parametrize("mode", [mode for mode in MODES if mode != CONTAINER])
def test_programs_make_sockets_among_their_temporary_files(mode, deep, mark):
    engine = launch(deep, mark, LISTENS, mode)
    assert ended(engine).outcome.exit_code == 0, texts(deep)
    assert texts(deep)[1] == "connected"
    assert not os.path.lexists(link_of(deep))


def test_the_files_lie_in_the_attempts_own_folder(deep, mark):
    engine = launch(deep, mark, FOREVER)
    wait_until(lambda: "ready" in texts(deep), "the program is ready")
    tmp = AttemptFolder(deep / str(KEY.uid) / str(KEY.attempt)).tmp
    assert texts(deep)[2].startswith(f"{tmp}/")
    assert texts(deep)[0].startswith(f"{link_of(deep)}/")
    engine.stop(KEY, order(0.0))
    ended(engine)


def test_a_killed_supervisor_leaves_no_link(deep, mark):
    engine = launch(deep, mark, FOREVER)
    wait_until(lambda: "ready" in texts(deep), "the program is ready")
    os.kill(supervisor(deep), signal.SIGKILL)
    until(engine, Phase.LOST)
    assert not os.path.lexists(link_of(deep))


@pytest.mark.parametrize("kind", ["link", "file", "folder"])
def test_what_another_user_has_put_in_its_place_is_not_used(kind, deep, mark, tmp_path):
    place, code = link_of(deep), "import tempfile; print(tempfile.gettempdir())"
    {
        "link": lambda: place.symlink_to(tmp_path),
        "file": place.touch,
        "folder": place.mkdir,
    }[kind]()
    try:
        engine = launch(deep, mark, code)
        assert ended(engine).outcome.exit_code == 0, texts(deep)
        assert texts(deep) == [AttemptFolder(deep / str(KEY.uid) / str(KEY.attempt)).tmp]
        assert os.path.lexists(place)
    finally:
        place.rmdir() if kind == "folder" else place.unlink()


#: The workers pass their batches by descriptors, over sockets.
LOADS = """
import torch
from torch.utils.data import DataLoader, TensorDataset
data = TensorDataset(torch.arange(8.0))
print(sum(float(batch.sum()) for (batch,) in DataLoader(data, batch_size=2, num_workers=2)))
"""


@pytest.mark.full
@pytest.mark.skipif(not importlib.util.find_spec("torch"), reason="make test installs PyTorch")
def test_workers_of_a_data_loader_give_their_batches(deep, mark):
    engine = launch(deep, mark, LOADS)
    assert ended(engine).outcome.exit_code == 0, texts(deep)
    assert read_answer(deep) == "28.0"
