"""Each engine has the environments of its own nodes."""

import pytest

from trainshed.engines.base import NodeLocation, Traits
from trainshed.engines.several import Engines, ServedEngine
from trainshed.model.faults import UsageFault
from trainshed.model.job import JobSpec, Program, ProgramKind, ReplicaGroup
from trainshed.model.roles import Dialect, Role
from trainshed.service.starts.engine_images import EngineImages, RereadImages, images_of
from trainshed.service.starts.images import ImageMapping, Images, LocalEnvironment
from trainshed.service.starts.stand_ins import missing_starts
from trainshed.testing.fake_engine import FakeEngine

GOOGLES = "us-docker.pkg.dev/vertex-ai/training/pytorch-gpu.1-13.py310:latest"


def program(image):
    return Program(kind=ProgramKind.CONTAINER, image_uri=image)


def engines_of(versions=None, **environments):
    here, there = FakeEngine([]), FakeEngine([])
    here.traits = Traits(reach=NodeLocation.THIS_MACHINE, python="/here/python")
    there.traits = Traits(reach=NodeLocation.ANY, python="python3")
    if versions:
        there.list_versions = versions
    return Engines(
        {
            "here": ServedEngine(engine=here),
            "there": ServedEngine(engine=there, environments=environments),
        }
    )


def test_a_row_maps_an_image_where_its_environment_is():
    engines = engines_of(torch="/opt/torch/bin/python")
    row = ImageMapping(environment="torch", image="corp/*")
    images = images_of(engines, (), (row,), have_tables=True)
    assert images.of("there").stand_in(program("corp/x")).python == "/opt/torch/bin/python"
    assert images.of("here").stand_in(program("corp/x")) is None
    with pytest.raises(UsageFault, match="there are only default, torch, container"):
        images_of(engines, (), (ImageMapping(environment="x", image="y"),), have_tables=True)


def test_what_nobody_has_asked_stands_in_for_nothing_unless_it_is_the_default():
    images = images_of(engines_of(torch="/t/python"), (), (), have_tables=True)
    assert images.of("there").stand_in(program(GOOGLES)) is None
    engines = engines_of(torch="/t/python", default="/d/python")
    images = images_of(engines, (), (), have_tables=True)
    assert images.of("there").stand_in(program(GOOGLES)).python == "/d/python"


def test_a_prebuilt_image_without_an_interpreter_is_refused_with_the_settings_that_run_it():
    images = images_of(engines_of(torch="/t/python"), (), (), have_tables=True).of("there")
    group = ReplicaGroup(role=Role.PRIMARY, count=1, program=program(GOOGLES))
    spec = JobSpec(dialect=Dialect.AIPLATFORM_V1, groups=(group,))
    (violation,) = missing_starts(spec, images)
    assert "no interpreter on the engine's nodes" in violation.message
    assert "[engine.environments] / default = " in violation.accepted
    assert "trainshed doctor --engine NAME" in violation.accepted
    assert "prebuilt" not in violation.accepted


def test_what_an_engine_knows_of_its_interpreters_decides():
    versions = {"/t/python": {"python": "3.10.1", "torch": "1.13.1"}}
    engines = engines_of(lambda python: versions.get(python, {}), torch="/t/python", default="/d/p")
    stand_in = images_of(engines, (), (), have_tables=True).of("there").stand_in(program(GOOGLES))
    assert stand_in.python == "/t/python"
    assert "PyTorch 1.13.1" in stand_in.note


def reread_images(file):
    """Tables of one environment, whose interpreter is the text of a file."""

    def make():
        if "broken" in (text := file.read_text()):
            raise UsageFault(f"{file} is broken")
        rows = (ImageMapping(environment="mine", image="corp/*"),)
        environments = (LocalEnvironment(name="mine", python=text),)
        return EngineImages({"here": Images(environments, rows, "/own")})

    return RereadImages(make(), file, make)


def test_environments_are_read_again_when_their_file_has_changed(tmp_path, caplog):
    file = tmp_path / "config.toml"
    file.write_text("/first")
    images = reread_images(file)
    assert images.of("").stand_in(program("corp/x")).python == "/first"
    file.write_text("/second one")
    assert images.of("").stand_in(program("corp/x")).python == "/second one"
    assert not caplog.records


@pytest.mark.parametrize(
    "spoil", [lambda file: file.write_text("broken"), lambda file: file.unlink()]
)
def test_a_file_that_cannot_be_read_leaves_the_environments_and_is_logged_once(
    tmp_path, caplog, spoil
):
    file = tmp_path / "config.toml"
    file.write_text("/first")
    images = reread_images(file)
    spoil(file)
    for _ in range(3):
        assert images.of("").stand_in(program("corp/x")).python == "/first"
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "cannot read the environments again" in caplog.text
