"""Variables of the loader in an image or a job: the program gets them, and the warden does not.

The image has nothing but a library that needs others, so no dynamically linked program starts that
reads LD_PRELOAD.  The job's program is the Python of the wardens, behind the program that hides
these variables from it under other names.
"""

import shutil
from dataclasses import replace

import pytest

from k8s.emulator.pods.images import DEFAULT_PATH, ContainerImage
from k8s.world import KubernetesWorld
from trainshed.engines.kubernetes import mounts, runtime
from trainshed.engines.warden.loader_variables import HIDDEN
from trainshed.testing.engine_steps import ended, new_key, place_of
from trainshed.testing.engine_world import FakeProgram

_sqlite3 = pytest.importorskip(
    "_sqlite3", reason="this Python was built without SQLite: use another"
)

pytestmark = [pytest.mark.full, pytest.mark.slow, pytest.mark.timeout(300)]

IMAGE, LIBRARY = "localhost/preloads:1", "/does-not-fit.so"
OF_IMAGE = {"LD_PRELOAD": LIBRARY, "LD_LIBRARY_PATH": "/of/the/image", "LD_AUDIT": LIBRARY}
SHOWS = f"import os; print(sorted(e for e in os.environ.items() if e[0].startswith('{HIDDEN}')))"


@pytest.fixture
def world(live_cluster, tmp_path):
    folder = tmp_path / "image"
    folder.mkdir()
    shutil.copy(_sqlite3.__file__, folder / LIBRARY.lstrip("/"))
    image = ContainerImage(folder, env={"PATH": DEFAULT_PATH, **OF_IMAGE})
    live_cluster.images.add(IMAGE, image)
    world = KubernetesWorld(live_cluster, tmp_path)
    yield world
    world.close()


@pytest.mark.parametrize("of_job", [{}, {"LD_PRELOAD": "/of/the/job.so", "LD_AUDIT": ""}], ids=str)
def test_a_program_gets_the_variables_of_its_image_or_job_and_no_warden_does(world, of_job):
    engine, key = world.engine(), new_key()
    (bundle,) = world.library.glob("runtime-*")
    start = runtime.compose_start(f"{mounts.LIBRARY}/{bundle.name}")
    plan = world.plan(key, FakeProgram())
    container = replace(plan.primary.container, image=IMAGE, command=(*start, "-c", SHOWS))
    replica = replace(plan.primary, container=container, env={**plan.primary.env, **of_job})
    plan = replace(plan, replicas=(replica,))
    engine.launch(key, plan, place_of(engine, plan))
    assert ended(engine, key).exit_code == 0, [line.text for line in world.lines(key)]
    expected = {f"{HIDDEN}{name[3:]}": text for name, text in {**OF_IMAGE, **of_job}.items()}
    assert [line.text for line in world.lines(key)] == [str(sorted(expected.items()))]
