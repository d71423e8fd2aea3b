"""What stands in for an image or a runtime version, and what its job is told."""

import re
import sys
import tomllib
import venv
from dataclasses import replace
from pathlib import Path

import pytest

from service.submitting import DOCKER, Desk, custom_job, images, pool, refusal
from trainshed.catalog.rows import rows
from trainshed.catalog.software import packages_of, runtimes
from trainshed.config import ImageMapping, LocalEnvironment
from trainshed.model.faults import UsageFault
from trainshed.model.job import Program, ProgramKind
from trainshed.service.starts import images as module
from trainshed.service.starts.interpreters import Installed, installed

TORCH_1 = "us-docker.pkg.dev/vertex-ai/training/pytorch-gpu.1-13.py310:latest"

DLC = "us-docker.pkg.dev/deeplearning-platform-release/gcr.io"
HF = "huggingface-pytorch-training-cu121"

#: Interpreters that are not there, and what they would answer.
FLEET = {
    "/old": Installed(python="3.7", frameworks={"TensorFlow": "2.4.1"}),
    "/mid": Installed(python="3.10", frameworks={"TensorFlow": "2.11.0", "PyTorch": "1.13.1"}),
    "/dead": Installed(),
    sys.executable: Installed(python="3.11", frameworks={"PyTorch": "2.13.0"}),
}
OLD, MID = LocalEnvironment(name="old", python="/old"), LocalEnvironment(name="mid", python="/mid")
DEAD = LocalEnvironment(name="dead", python="/dead")


@pytest.fixture
def fleet(monkeypatch):
    monkeypatch.setattr(module, "installed", FLEET.__getitem__)


def container(uri):
    return Program(kind=ProgramKind.CONTAINER, image_uri=uri)


def package(version, python=None):
    kind = ProgramKind.PYTHON_PACKAGE
    return Program(kind=kind, runtime_version=version, python_version=python)


@pytest.mark.usefixtures("fleet")
def test_the_nearest_environment_stands_in_and_the_job_is_told_the_difference():
    stand_in = images(environments=(OLD, MID)).stand_in(container(TORCH_1))
    assert (stand_in.environment, stand_in.python) == ("mid", "/mid")
    assert stand_in.note == (
        f"Asked for PyTorch 1.13 on Python 3.10 ({TORCH_1}); runs in environment mid: "
        "PyTorch 1.13.1, Python 3.10."
    )
    assert images(environments=(OLD,)).stand_in(container(TORCH_1)).note == (
        f"Asked for PyTorch 1.13 on Python 3.10 ({TORCH_1}); runs in environment default: "
        "PyTorch 2.13.0, Python 3.11."
    )


@pytest.mark.usefixtures("fleet")
@pytest.mark.parametrize(
    ("version", "python", "environment"),
    [("2.5", "3.7", "old"), ("2.8", "3.7", "mid"), ("2.11", "3.7", "mid"), ("1.15", "3.7", "old")],
)
def test_a_runtime_version_runs_with_the_nearest_tensorflow(version, python, environment):
    stand_in = images(environments=(OLD, MID)).stand_in(package(version, python))
    assert stand_in.environment == environment
    assert f"(runtime version {version})" in stand_in.note


@pytest.mark.usefixtures("fleet")
def test_what_a_runtime_version_had_and_is_not_here_is_said_before_the_program_runs(monkeypatch):
    note = images(environments=(MID,)).stand_in(package("2.11")).note
    assert "It lacks cloudml-hypertune, gcsfs, " in note
    assert "more, which runtime version 2.11 had; `trainshed environments build DIR" in note
    complete = replace(FLEET["/mid"], packages=frozenset(packages_of("2.11")))
    monkeypatch.setitem(FLEET, "/mid", complete)
    assert "lacks" not in images(environments=(MID,)).stand_in(package("2.11")).note
    table = images(ImageMapping(environment="old", runtime_version="*"), environments=(OLD,))
    assert "which runtime version 1.15 had" in table.stand_in(package("1.15")).note


@pytest.mark.usefixtures("fleet")
def test_where_nobody_has_the_framework_the_job_runs_and_is_told_so():
    uri = "europe-docker.pkg.dev/vertex-ai/training/xgboost-cpu.1-6:latest"
    stand_in = images(environments=(DEAD,)).stand_in(container(uri))
    assert stand_in.environment == "default"
    assert stand_in.note.endswith("runs in environment default: no XGBoost, Python 3.11.")


@pytest.mark.usefixtures("fleet")
def test_the_administrator_s_table_comes_first_and_its_first_row_wins():
    table = images(
        ImageMapping(environment="old", image="me/own:*", entrypoint=("python", "-m", "start")),
        ImageMapping(environment="mid", image="me/*"),
        ImageMapping(environment="old", image="*pytorch-gpu.1-13*"),
        ImageMapping(environment="old", runtime_version="2.1*"),
        environments=(OLD, MID),
    )
    own = table.stand_in(container("me/own:1"))
    assert (own.environment, own.entrypoint) == ("old", ("python", "-m", "start"))
    assert own.note == (
        "Asked for me/own:1; the configuration maps it to environment old: TensorFlow 2.4.1, "
        "Python 3.7."
    )
    assert table.stand_in(container("me/other")).environment == "mid"
    assert table.stand_in(container(TORCH_1)).environment == "old"
    assert table.stand_in(package("2.11")).environment == "old"
    assert table.stand_in(package("2.9")).environment == "mid"


@pytest.mark.usefixtures("fleet")
@pytest.mark.parametrize("pattern", ["me/own", "e/own:1", "me/own:[0-9]", "me.own:1", "", "ME/*"])
def test_a_pattern_means_itself_and_a_star_any_text(pattern):
    table = images(ImageMapping(environment="default", image=pattern))
    assert table.stand_in(container("me/own:1")) is None


def test_a_row_of_an_unknown_environment_is_refused_when_the_server_starts():
    with pytest.raises(UsageFault, match=r"'gone'.*only default, old, container"):
        images(ImageMapping(environment="gone", image="*"), environments=(OLD,))


OWN = "registry.example/me/own:1"


@pytest.mark.usefixtures("fleet")
def test_an_image_that_nothing_stands_in_for_runs_itself_where_there_is_a_runtime():
    stand_in = images(containers=DOCKER).stand_in(container(OWN))
    assert stand_in.is_container
    assert stand_in.note == f"The image {OWN} runs in a container of docker, as user 1000:1000."
    assert images().stand_in(container(OWN)) is None


@pytest.mark.usefixtures("fleet")
def test_the_table_comes_before_the_runtime_and_can_ask_for_it():
    table = images(
        ImageMapping(environment="container", image="*pytorch-gpu*"),
        ImageMapping(environment="mid", image="registry.example/*"),
        environments=(OLD, MID),
        containers=DOCKER,
    )
    assert table.stand_in(container(OWN)).environment == "mid"
    assert table.stand_in(container(TORCH_1)).is_container


@pytest.mark.usefixtures("fleet")
def test_a_prebuilt_image_runs_itself_only_where_no_environment_has_its_framework():
    xgboost = "europe-docker.pkg.dev/vertex-ai/training/xgboost-cpu.1-6:latest"
    table = images(environments=(OLD, MID), containers=DOCKER)
    assert table.stand_in(container(TORCH_1)).environment == "mid"
    assert table.stand_in(container(xgboost)).is_container
    assert table.stand_in(package("2.11")).environment == "mid"


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"runtime_version": "2.*"}, "both `runtime_version` and `run`"),
        ({"image": "x/*", "run": "--privileged"}, "the name of an image, got '--privileged'"),
        ({"image": "x/*", "run": "a", "environment": "default"}, "needs environment = .container"),
    ],
)
def test_a_row_that_says_not_what_runs_is_refused(row, words):
    with pytest.raises(UsageFault, match=words):
        images(ImageMapping(**{"environment": "container", **row}))


@pytest.mark.usefixtures("fleet")
def test_a_row_gives_the_image_that_runs_and_what_starts_it():
    rows = (
        ImageMapping(
            environment="container", image="*pytorch-gpu*", run="corp/torch:1", entrypoint=("x",)
        ),
        ImageMapping(environment="container", runtime_version="2.*", run="corp/tf:2"),
    )
    table = images(*rows, environments=(MID,), containers=DOCKER)
    prebuilt, version = table.stand_in(container(TORCH_1)), table.stand_in(package("2.11"))
    assert (prebuilt.image, prebuilt.entrypoint) == ("corp/torch:1", ("x",))
    assert (version.image, version.entrypoint, version.is_container) == ("corp/tf:2", (), True)
    assert prebuilt.note.startswith(f"Asked for {TORCH_1}; the configuration maps it to an image.")
    assert "The image corp/tf:2 runs in a container of docker" in version.note
    assert table.stand_in(container(OWN)).image == OWN
    without = images(*rows, environments=(MID,))
    assert without.stand_in(package("2.11")).environment == "mid"


def test_an_engine_without_interpreters_runs_images_alone():
    row = ImageMapping(environment="container", runtime_version="2.1*", run="corp/tf:2")
    table = module.Images((), (row,), "", DOCKER)
    assert table.stand_in(container(TORCH_1)).image == TORCH_1
    assert table.stand_in(package("2.11")).image == "corp/tf:2"
    assert table.stand_in(package("1.15")) is None
    assert table.stand_in(Program(kind=ProgramKind.PYTHON_PACKAGE)) is None


def test_an_engine_that_runs_all_jobs_in_images_notes_only_other_images():
    row = ImageMapping(environment="container", runtime_version="2.1*", run="corp/tf:2")
    runtime = DOCKER.runtime._replace(runs_all_jobs=True)
    table = module.Images((), (row,), "", DOCKER._replace(runtime=runtime))
    assert table.stand_in(container(OWN)).note == ""
    assert table.stand_in(package("2.11")).note == (
        "Asked for runtime version 2.11; the configuration maps it to the image corp/tf:2."
    )


def test_a_runtime_version_without_a_row_is_refused_where_images_run_alone(store):
    desk = Desk(store, module.Images((), (), "", DOCKER))
    version = {"runtimeVersion": "2.11", "pythonVersion": "3.7", "region": "us-central1"}
    program = {"pythonModule": "trainer.task", "packageUris": ["gs://bkt/p.tar.gz"]}
    error = refusal(desk.ml, {"jobId": "own", "trainingInput": {**version, **program}})
    violation = next(v for v in error.violations if v.rule == "image-unmapped")
    assert violation.field.endswith("runtimeVersion")
    assert "runs programs in images alone" in violation.message
    assert '[[image]] / runtime_version = "2.11"' in violation.accepted


def test_where_entry_points_are_not_known_a_refusal_names_all_ways(store):
    runtime = DOCKER.runtime._replace(needs_command="the engine asks no registry (set x = true)")
    table = images(containers=DOCKER._replace(runtime=runtime))
    (violation,) = refusal(Desk(store, table).custom, custom_job(pool((), OWN))).violations
    assert violation.rule == "no-command"
    assert "the engine asks no registry (set x = true)." in violation.message
    assert violation.accepted.startswith("containerSpec.command, or in the server's configuration")
    lines = mapped_by(violation.accepted)
    row = ImageMapping(**{**lines, "entrypoint": tuple(lines["entrypoint"])})
    assert (row.image, row.environment) == (OWN, "container")
    table = images(row, containers=DOCKER._replace(runtime=runtime))
    Desk(store, table).custom(custom_job(pool((), OWN)))
    Desk(store, table).custom(custom_job(pool(("python",), OWN)))


def test_without_a_runtime_the_refusal_says_why_and_names_both_ways_out(store):
    error = refusal(Desk(store, images()).custom, custom_job(pool(image=OWN)))
    (violation,) = error.violations
    assert violation.field.endswith("containerSpec.imageUri")
    assert "docker is installed but its daemon does not answer" in violation.message
    assert "docker, podman or apptainer" in violation.accepted
    assert mapped_by(violation.accepted) == {"image": OWN, "environment": "default"}
    assert violation.accepted in error.message  # what most clients show is not cut off


def test_a_refusal_for_an_unknown_entry_point_says_which_lines_of_settings_give_it(store):
    """In a custom image that nothing runs, and in one of Google's."""
    for image in (OWN, "gcr.io/deeplearning-platform-release/tf2-cpu.2-6"):
        (violation,) = refusal(Desk(store, images()).custom, custom_job(pool((), image))).violations
        lines = mapped_by(violation.accepted)
        assert (lines["image"], lines["entrypoint"]) == (image, ["python", "-m", "trainer.task"])
        table = images(ImageMapping(**{**lines, "entrypoint": tuple(lines["entrypoint"])}))
        Desk(store, table).custom(custom_job(pool((), image)))


def mapped_by(text):
    """The table whose lines a refusal tells in one line."""
    row = re.search(r"\[\[image\]\] / .*?(?=, or the command|;)", text)[0]
    (table,) = tomllib.loads(row.replace(" / ", "\n"))["image"]
    return table


def test_with_a_runtime_a_container_needs_no_command(store):
    desk = Desk(store, images(containers=DOCKER))
    record = desk.custom(custom_job(pool((), OWN)))
    (note,) = (note for note in store.notes(record.uid) if OWN in note)
    assert note.startswith("The image")
    master = {"masterConfig": {"imageUri": OWN}, "masterType": "n1-standard-4"}
    training = {"region": "us-central1", "scaleTier": "CUSTOM", **master}
    desk.ml({"jobId": "own", "trainingInput": training})


@pytest.mark.parametrize("name", ["--privileged", "-v", "a b", "$(x)", "x;y"])
def test_what_is_no_name_of_an_image_is_refused(store, name):
    error = refusal(Desk(store, images(containers=DOCKER)).custom, custom_job(pool(image=name)))
    assert [violation.rule for violation in error.violations] == ["image-name"]


def test_all_of_google_s_images_and_runtime_versions_have_a_stand_in():
    table = images()
    for row in rows("vertex_images", "image"):
        stand_in = table.stand_in(container(f"asia-docker.pkg.dev/{row['path']}"))
        assert stand_in is not None, row["path"]
        assert f"Asked for {row['framework']} " in stand_in.note
    for repository in rows("vertex_images", "repository"):
        for uri in repository["examples"]:
            assert table.stand_in(container(uri)) is not None, uri
    for version in runtimes():
        assert table.stand_in(package(version)).python == sys.executable
    server = "us-docker.pkg.dev/vertex-ai-restricted/training/reductionserver:latest"
    assert table.stand_in(container(server)) is not None
    for other in ("gcr.io/me/pytorch:1.13", "gcr.io/cloud-ml-algos/xgboost:latest"):
        assert table.stand_in(container(other)) is None


@pytest.mark.usefixtures("fleet")
@pytest.mark.parametrize(
    ("name", "environment", "software"),
    [
        ("gcr.io/cloud-ml-public/training/pytorch-gpu.1-4", "mid", "PyTorch 1.4"),
        ("gcr.io/cloud-aiplatform/training/tf2-cpu.2-3:latest", "old", "TensorFlow 2.3"),
        ("us-docker.pkg.dev/cloud-aiplatform/training/tf-gpu.2-8", "mid", "TensorFlow 2.8"),
        ("gcr.io/deeplearning-platform-release/tf-gpu.1-15:m65", "old", "TensorFlow 1.15"),
        ("gcr.io/deeplearning-platform-release/pytorch-gpu", "mid", "PyTorch"),
        ("gcr.io/deeplearning-platform-release/base-cu101", "old", "no framework"),
        (f"{DLC}/tf2-cu121.2-15.py310", "mid", "TensorFlow 2.15 on Python 3.10"),
        (f"{DLC}/{HF}.1-2.transformers.4-42.ubuntu2204.py310", "mid", "PyTorch 1.2 on Python 3.10"),
    ],
)
def test_a_name_of_google_s_says_what_is_in_the_image(name, environment, software):
    stand_in = images(environments=(OLD, MID)).stand_in(container(name))
    assert stand_in.environment == environment
    assert stand_in.note.startswith(f"Asked for {software} ({name}); ")


def test_an_interpreter_is_asked_for_what_it_has(tmp_path):
    venv.create(tmp_path / "env", with_pip=False)
    python = tmp_path / "env/bin/python"
    (library,) = (tmp_path / "env/lib").glob("python*/site-packages")
    for name, version in (("torch", "1.13.1+cu117"), ("tensorflow_cpu", "2.11.0")):
        folder = library / f"{name}-{version}.dist-info"
        folder.mkdir()
        distribution = name.replace("_", "-")
        (folder / "METADATA").write_text(f"Name: {distribution}\nVersion: {version}\n")
    here = f"{sys.version_info[0]}.{sys.version_info[1]}"
    frameworks = {"PyTorch": "1.13.1", "TensorFlow": "2.11.0"}
    assert installed(str(python)) == Installed(python=here, frameworks=frameworks)


def test_an_interpreter_that_does_not_answer_has_nothing(tmp_path):
    assert installed(str(tmp_path / "absent")) == Installed()
    broken = Path(tmp_path / "broken")
    broken.write_text("#!/bin/sh\necho no json\n")
    broken.chmod(0o755)
    assert installed(str(broken)) == Installed()
