"""A missing package names the interpreter that lacks it; a module of the user's own does not."""

import pytest

from trainshed.model.missing_modules import advise, missing_module
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
        (["ImportError: cannot import name 'Model' from 'trainer'"], ""),
        ([], ""),
    ],
)
def test_the_missing_module_is_the_one_that_the_program_died_of(lines, module):
    assert missing_module(lines) == module


@pytest.mark.parametrize("module", ["torch", "tensorflow", "xgboost", "cv2", "sklearn", "PIL"])
def test_a_missing_package_names_the_python_and_both_ways_to_choose_another(module):
    said = f"runs in {PYTHON}, which has no {module}; use --python, or [[environment]]"
    assert said in advise(module, PYTHON, OWN)


@pytest.mark.parametrize("module", ["helpers", "helper", "tasks", "trainr", "torch"])
def test_a_module_of_the_users_own_is_no_reason_for_another_python(module):
    assert advise(module, PYTHON, {*OWN, "torch"}) == ""


def test_a_module_that_is_neither_is_named_with_both_reasons_and_no_choice_of_a_python():
    said = advise("feature_store_of_ours", PYTHON, OWN)
    assert f"{PYTHON} has no module feature_store_of_ours" in said
    assert "setup.py" in said
    assert "--python" not in said


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
