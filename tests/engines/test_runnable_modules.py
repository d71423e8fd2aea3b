"""Which modules of a program ``python -m`` can run."""

from trainshed.engines.supervise.own_modules import (
    list_own_modules,
    list_runnable_modules,
    program_folders,
)


def test_modules_are_listed_two_levels_deep_in_all_folders_of_the_program(tmp_path):
    for name in (
        "work/trainer/__init__.py",
        "work/trainer/task.py",
        "work/trainer/data/load.py",
        "work/setup.py",
        "work/notes-1.py",
        "work/app/__main__.py",
        "packages/other/train.py",
        "packages/other.dist-info/x.py",
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    env = {"PYTHONPATH": f"../packages:{tmp_path / 'gone'}"}
    assert list_runnable_modules(program_folders(str(tmp_path / "work"), env)) == {
        "trainer.task",
        "trainer.data.load",
        "app",
        "other.train",
    }


def test_folders_that_the_program_may_not_read_are_not_listed_for_it(tmp_path):
    """The supervisor is root, and the variable is the caller's."""
    for name in ("work/task.py", "other/secret.py"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).touch()
    work = tmp_path / "work"
    (work / "link").symlink_to(tmp_path / "other")
    env = {"PYTHONPATH": f"{tmp_path / 'other'}:{work / 'link'}:{work}/../other"}
    assert list_own_modules(program_folders(str(work), env, (str(work),))) == {"task"}
    assert "secret" in list_own_modules(program_folders(str(work), env))
