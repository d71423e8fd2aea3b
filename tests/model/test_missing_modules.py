"""A missing package names the interpreter that lacks it; a module of the user's own does not."""

import pytest

from trainshed.model.missing_modules import (
    advise,
    advise_name,
    advise_program,
    misnamed_module,
    missing_module,
)
from trainshed.model.success import words_of

PYTHON = "/opt/python/bin/python3"
OWN = {"trainer", "task", "helpers", "__init__"}


@pytest.mark.parametrize(
    ("lines", "module"),
    [
        (["ModuleNotFoundError: No module named 'torch'"], "torch"),
        (["[rank1]: ModuleNotFoundError: No module named 'torch'"], "torch"),
        (["ImportError: No module named yaml"], "yaml"),
        (["/usr/bin/python3.11: No module named pytest"], "pytest"),
        (
            ["/usr/bin/python: Error ... (ModuleNotFoundError: No module named 'torch')"],
            "torch",
        ),
        (
            [
                "ModuleNotFoundError: No module named 'cv2'",
                "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ",
                "trainer/task.py FAILED",
            ],
            "cv2",
        ),
        (["ModuleNotFoundError: No module named 'torch'", "ValueError: bad weights"], ""),
        (["ModuleNotFoundError: No module named 'trainer.utils'"], ""),
        (["ModuleNotFoundError: No module named 'google.cloud'"], "google.cloud"),
        (["ImportError: cannot import name 'Model' from 'trainer'"], ""),
        ([], ""),
    ],
)
def test_the_missing_module_is_the_one_that_the_program_died_of(lines, module):
    assert missing_module(lines) == module


@pytest.mark.parametrize("module", ["torch", "tensorflow", "xgboost", "cv2", "google.cloud"])
def test_a_missing_package_names_the_python_and_both_ways_to_choose_another(module):
    sentence = f"runs in {PYTHON}, which has no {module}; use --python, or [[environment]]"
    assert sentence in advise(module, PYTHON, OWN)


@pytest.mark.parametrize("module", ["helpers", "helper", "tasks", "trainr", "torch"])
def test_a_module_of_the_users_own_is_no_reason_for_another_python(module):
    assert advise(module, PYTHON, {*OWN, "torch"}) == ""


def test_a_module_that_is_neither_is_named_with_both_reasons_and_no_choice_of_a_python():
    sentence = advise("feature_store_of_ours", PYTHON, OWN)
    assert f"{PYTHON} has no module feature_store_of_ours" in sentence
    assert "setup.py" in sentence
    assert "--python" not in sentence


def test_a_module_that_the_command_names_and_that_is_not_there_gets_no_advice():
    assert advise("no_such_trainer", PYTHON, (), ["python", "-m", "no_such_trainer.task"]) == ""
    assert "has no torch" in advise("torch", PYTHON, (), ["python", "-m", "torch.distributed.run"])


def test_the_last_line_of_an_error_is_not_what_pip_says_of_itself():
    lines = [
        "ERROR: No matching distribution found for nobody-made-this",
        "WARNING: Running pip as the 'root' user can result in broken permissions",
        "[notice] A new release of pip is available: 24.0 -> 25.3",
        "[notice] To update, run: pip install --upgrade pip",
    ]
    assert words_of(lines) == lines[0]
    assert words_of(lines[2:]) == lines[3]


def command(module):
    return ["python", "-u", "-m", module, "--epochs", "3"]


@pytest.mark.parametrize(
    ("module", "line"),
    [
        ("trainer.tsk", "/usr/bin/python: No module named trainer.tsk"),
        (
            "trainr.task",
            (
                "python3: Error while finding module specification for 'trainr.task' "
                "(ModuleNotFoundError: No module named 'trainr')"
            ),
        ),
        (
            "trainer",
            (
                "python: No module named trainer.__main__; 'trainer' is a package and cannot be "
                "directly executed"
            ),
        ),
        ("tsk", "python: No module named tsk"),
    ],
)
def test_a_module_that_python_cannot_run_is_the_one_of_the_command(module, line):
    assert misnamed_module([line], command(module)) == module
    assert misnamed_module([line], ["python", "task.py"]) == ""
    assert misnamed_module(["ValueError: bad weights"], command(module)) == ""


def test_a_public_package_or_an_import_of_the_program_is_no_wrong_module_name():
    line = "ModuleNotFoundError: No module named 'torch'"
    assert misnamed_module([line], command("torch.distributed.run")) == ""
    assert misnamed_module([line], command("trainer.task")) == ""


@pytest.mark.parametrize(
    ("module", "there", "says"),
    [
        ("trainer.tsk", ["trainer.task", "trainer.model"], "did you mean trainer.task?"),
        ("trainr.task", ["trainer.task", "trainer.model"], "did you mean trainer.task?"),
        ("trainer", ["trainer.model", "trainer.task"], "did you mean trainer.task?"),
        ("task", ["trainer.model", "trainer.task"], "did you mean trainer.task?"),
        ("code.task", ["src.task", "src.data"], "did you mean src.task?"),
        ("xyz", ["b.two", "a.one"], "the package has no module xyz; it has a.one, b.two"),
        ("xyz", [], "no folder of the program has a module xyz"),
    ],
)
def test_a_wrong_module_name_is_answered_with_one_that_is_there(module, there, says):
    assert says in advise_name(module, there)


def test_a_program_of_an_image_that_is_not_there_is_named():
    line = "python: can't open file '/job/work/train.py': [Errno 2] No such file or directory"
    assert advise_program(["x", line]) == (
        "the replica has no file train.py: it has the files of an image only where a container "
        "runtime runs the image; send the program as a Python package"
    )
    assert advise_program(["FileNotFoundError: [Errno 2] No such file: 'a'"]) == ""
