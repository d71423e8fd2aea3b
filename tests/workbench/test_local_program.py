import pytest

from trainshed.model.faults import UsageFault
from trainshed.workbench.local_program import LocalProgram, install_program, program_of

REDUCER = {"containerSpec": {"imageUri": "host/training/reductionserver:latest"}}


def test_a_python_file_runs_with_python_and_any_other_script_with_bash(tmp_path):
    assert LocalProgram(folder=tmp_path, script="a/task.py").command == ("python", "a/task.py")
    assert LocalProgram(folder=tmp_path, script="run.sh").command == ("bash", "run.sh")
    assert LocalProgram(folder=tmp_path, module="a.task").command == ("python", "-m", "a.task")
    assert LocalProgram(folder=tmp_path).command == ()


def test_the_program_takes_the_place_of_every_pools_own_but_the_reducers(tmp_path):
    program = LocalProgram(folder=tmp_path, module="a.task")
    pools = [
        {"replicaCount": 1, "containerSpec": {"imageUri": "img", "command": ["x"], "args": ["y"]}},
        {"replicaCount": 2, "pythonPackageSpec": {"executorImageUri": "exe", "env": [1]}},
        REDUCER,
        {},
    ]
    command = ["python", "-m", "a.task"]
    assert install_program(pools, program) == [
        {
            "replicaCount": 1,
            "containerSpec": {"imageUri": "img", "command": command, "args": ["y"]},
        },
        {
            "replicaCount": 2,
            "containerSpec": {"imageUri": "exe", "command": command, "env": [1]},
        },
        REDUCER,
        {},
    ]


def test_without_a_program_the_pools_stay_as_they_are(tmp_path):
    assert install_program([REDUCER, {}], LocalProgram(folder=tmp_path)) == [REDUCER, {}]


def test_flags_win_over_the_first_pools_keys(tmp_path):
    (tmp_path / "task.py").write_text("")
    pool = {"local-package-path": str(tmp_path), "script": "other.py", "requirements": "a;b"}
    program = program_of({"script": "task.py"}, pool)
    assert (program.folder, program.script, program.requirements) == (
        tmp_path,
        "task.py",
        ("a", "b"),
    )


def test_a_module_of_a_pool_is_local_only_with_a_local_folder():
    assert program_of({}, {"python-module": "trainer.task"}).module is None


def test_requirements_come_from_the_file_beside_the_code_too(tmp_path):
    (tmp_path / "requirements.txt").write_text("# ours\nnumpy>=2 # fast\n\nscipy\n")
    program = LocalProgram(folder=tmp_path, module="task", requirements=("pandas",))
    assert program.source().requirements == ("numpy>=2", "scipy", "pandas")


def test_what_is_not_there_is_named(tmp_path):
    with pytest.raises(UsageFault, match=r"there is no script absent\.py in"):
        program_of({"script": "absent.py", "local-package-path": str(tmp_path)}, {})
    with pytest.raises(UsageFault, match="is not a folder"):
        program_of({"local-package-path": str(tmp_path / "absent")}, {})
    (tmp_path / "a.py").write_text("")
    both = {"script": "a.py", "python-module": "a", "local-package-path": str(tmp_path)}
    with pytest.raises(UsageFault, match="at most one of --script and --python-module"):
        program_of(both, {})
