import sys
from pathlib import Path

import pytest

from trainshed.model.faults import UsageFault
from trainshed.model.job import JobSpec, Program, ProgramKind, ReplicaGroup
from trainshed.model.roles import Dialect, Role
from trainshed.service.starts.programs import Source, environment_of, interpreter, working_folder
from trainshed.storage.buckets import Buckets


def package(folder, name="trainer"):
    (folder / name).mkdir(parents=True)
    (folder / name / "__init__.py").write_text("")
    (folder / name / "task.py").write_text("")
    return folder / name


def spec(*uris):
    program = Program(kind=ProgramKind.PYTHON_PACKAGE, module="trainer.task", package_uris=uris)
    groups = tuple(ReplicaGroup(role=role, program=program) for role in (Role.PRIMARY, Role.WORKER))
    return JobSpec(dialect=Dialect.ML_V1, groups=groups)


def environment(tmp_path, *uris, source=None):
    buckets = Buckets(root=tmp_path / "buckets")
    return environment_of(
        spec(*uris),
        source or Source(folder=tmp_path),
        "python",
        buckets,
        tmp_path,
    )


def test_the_interpreter_is_the_flag_then_the_variable_then_our_own():
    assert interpreter("/a/python", {"TRAINSHED_PYTHON": "/b/python"}) == "/a/python"
    assert interpreter(None, {"TRAINSHED_PYTHON": "/b/python"}) == "/b/python"
    assert interpreter(None, {}) == sys.executable


def test_replicas_run_in_the_parent_of_the_package(tmp_path):
    source = Source(folder=Path("/elsewhere"), package_path=package(tmp_path))
    assert working_folder(source, "trainer.task") == tmp_path


def test_without_a_package_path_the_module_is_found_here_or_as_gcloud_does_beside(tmp_path):
    inside = package(tmp_path)
    assert working_folder(Source(folder=tmp_path), "trainer.task") == tmp_path
    assert working_folder(Source(folder=inside), "trainer.task") == tmp_path
    assert working_folder(Source(folder=tmp_path), "absent.task") == tmp_path


def test_a_single_file_in_the_package_folder_itself_runs_there(tmp_path):
    (tmp_path / "gpu-check").mkdir()
    (tmp_path / "gpu-check/steps.py").write_text("")
    source = Source(folder=tmp_path, package_path=tmp_path / "gpu-check")
    assert working_folder(source, "steps") == tmp_path / "gpu-check"


def test_code_that_says_nothing_of_building_runs_in_place(tmp_path):
    source = Source(folder=tmp_path, package_path=package(tmp_path))
    (tmp_path / "pyproject.toml").write_text("[tool.ruff]\nline-length = 100\n")
    assert environment(tmp_path, source=source).packages == ()


@pytest.mark.parametrize(
    ("name", "text"),
    [("setup.py", ""), ("pyproject.toml", "[project]\nname = 'trainer'\n")],
)
def test_a_project_that_can_be_built_is_installed(tmp_path, name, text):
    source = Source(folder=tmp_path, package_path=package(tmp_path))
    (tmp_path / name).write_text(text)
    assert environment(tmp_path, source=source).packages == (str(tmp_path),)


def test_packages_are_local_files_or_objects_of_a_bucket_and_each_is_installed_once(tmp_path):
    (tmp_path / "buckets/bucket").mkdir(parents=True)
    (tmp_path / "buckets/bucket/r.whl").write_text("")
    (tmp_path / "a.tar.gz").write_text("")
    env = environment(tmp_path, "gs://bucket/r.whl", "a.tar.gz")
    assert env.packages == (
        str(tmp_path / "buckets/bucket/r.whl"),
        str(tmp_path / "a.tar.gz"),
    )


def test_a_missing_package_is_named_with_its_place(tmp_path):
    with pytest.raises(
        UsageFault, match=r"gs://bucket/r\.whl does not exist; its path on this machine is .*"
    ):
        environment(tmp_path, "gs://bucket/r.whl")
    with pytest.raises(UsageFault, match=r"package a\.tar\.gz does not exist"):
        environment(tmp_path, "a.tar.gz")
    source = Source(folder=tmp_path, package_path=tmp_path / "absent")
    with pytest.raises(UsageFault, match=r"--package-path .*absent is not a folder"):
        environment(tmp_path, source=source)


@pytest.mark.parametrize("name", ["link.whl", "folder/r.whl"])
def test_a_package_behind_a_link_in_a_bucket_is_refused_by_name(tmp_path, name):
    bucket = tmp_path / "buckets/bucket"
    bucket.mkdir(parents=True)
    (tmp_path / "r.whl").write_text("")
    (bucket / "link.whl").symlink_to(tmp_path / "r.whl")
    (bucket / "folder").symlink_to(tmp_path)
    with pytest.raises(UsageFault, match=rf"the package gs://bucket/{name} is behind a link"):
        environment(tmp_path, f"gs://bucket/{name}")
