"""Which modules of a program ``python -m`` can run."""

from trainshed.engines.supervise.own_modules import list_runnable_modules


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
    env = {"PYTHONPATH": f"{tmp_path / 'packages'}:{tmp_path / 'gone'}"}
    assert list_runnable_modules(str(tmp_path / "work"), env) == {
        "trainer.task",
        "trainer.data.load",
        "app",
        "other.train",
    }
