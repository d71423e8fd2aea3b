"""The pages about reducers say what there is: each variable and flag, the plan as it is printed."""

import re
from pathlib import Path

from trainshed.cli.main import main

ROOT = Path(__file__).parents[2]
REFERENCE = (ROOT / "docs/reference/reduction.md").read_text()
HOW_TO = (ROOT / "docs/how-to/reduction-server.md").read_text()
#: What a trainer, a job or a reducer can be told.
VARIABLE = re.compile(r"\bTRAINSHED_(?:REDUC[A-Z_]+|TORCH_BACKEND)\b")
SOURCES = [
    *(ROOT / "trainer/src/trainshed_trainer").rglob("*.py"),
    ROOT / "src/trainshed/launch/reduction_env.py",
]


def variables(*texts):
    return {name for text in texts for name in VARIABLE.findall(text)}


def test_the_reference_names_every_variable_that_is_read_and_no_other():
    read = variables(*(path.read_text() for path in SOURCES))
    assert variables(REFERENCE) == read
    assert variables(HOW_TO) <= read


def test_the_reference_names_every_flag_of_a_reducer_and_no_other():
    settings = (ROOT / "src/trainshed/reduction/settings.py").read_text()
    flags = set(re.findall(r'^ +(?:add\()?"(--[a-z-]+)"', settings, re.MULTILINE))
    named = set(re.findall(r"^\| `(--[a-z-]+)", REFERENCE, re.MULTILINE))
    assert "--host" in flags
    assert named == flags


def test_the_plan_is_printed_as_it_stands_there(capsys):
    command, output = re.search(
        r"^\$ trainshed (reduction plan .*)\n((?:.+\n|\n)*?)```", HOW_TO, re.MULTILINE
    ).groups()
    assert main(command.split()) == 0
    assert output in capsys.readouterr().out


def test_every_block_of_python_in_the_how_to_can_be_read():
    blocks = re.findall(r"^```python\n(.*?)^```", HOW_TO, re.MULTILINE | re.DOTALL)
    assert blocks
    for block in blocks:
        compile(block, "reduction-server.md", "exec")
