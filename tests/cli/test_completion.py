"""Completion scripts and man page: current, printed, and at work in the shells themselves."""

import os
import re
import shutil
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

from cli.terminal_process import Terminal
from trainshed.cli.completion import FOLDER, MAN_PAGE, SCRIPTS
from trainshed.cli.verbs import VERBS

ROOT = Path(__file__).parents[2]
#: How each shell is started with its completion and nothing of the user's.
SHELLS = {
    "bash": ("bash --norc --noprofile -i", "source {file}"),
    "zsh": ("zsh -f -i", 'autoload -Uz compinit && compinit -u -D; eval "$(<{file})"'),
}
READY = "READY"
FULL = pytest.mark.full


def generated():
    spec = spec_from_file_location("gen_completion", ROOT / "scripts/gen_completion.py")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.texts()


def test_what_is_kept_is_what_the_command_lines_give():
    for name, text in generated().items():
        if os.environ.get("UPDATE_GOLDEN"):
            (FOLDER / name).write_text(text, encoding="utf-8")
        is_same = (FOLDER / name).read_text(encoding="utf-8") == text
        assert is_same, f"{name} is not current; run python scripts/gen_completion.py"


@pytest.mark.parametrize("shell", SCRIPTS)
def test_the_script_of_a_shell_is_printed(trainshed, shell):
    run = trainshed("completion", shell)
    assert (run.code, run.out) == (0, (FOLDER / SCRIPTS[shell]).read_text())
    assert trainshed("completion", shell, "--format", "json").json["text"] == run.out


def test_another_shell_is_refused_with_those_that_are_there(trainshed):
    run = trainshed("completion", "tcsh")
    assert run.code == 2
    assert "'bash', 'zsh', 'fish'" in run.err


#: What a shell writes beside the letters: controls, titles, the bell, a letter that is taken back.
_CONTROLS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[=>]|\x07|.\x08")


def complete(command, setup, text, expected, environ):
    """Type a text and press Tab in a shell; return when what is expected stands there."""
    with Terminal(command.split(), env=environ) as terminal:
        os.write(terminal._end, f"PS1='> '; {setup}; echo {READY[:2]}''{READY[2:]}\n".encode())
        terminal.wait_until(
            lambda _: re.search(rf"[\r\n]{READY}\r\n.*> ", terminal.text, re.DOTALL)
        )
        os.write(terminal._end, f"{text}\t".encode())
        behind = f"{READY}\r\n"
        terminal.wait_until(
            lambda _: expected in _CONTROLS.sub("", terminal.text.rpartition(behind)[2])
        )


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("trainshed comple", "trainshed completion ", marks=FULL),
        pytest.param("trainshed jobs desc", "trainshed jobs describe ", marks=FULL),
        ("trainshed ai custom-jobs stream", "trainshed ai custom-jobs stream-logs "),
        pytest.param("trainshed jobs logs x --foll", "trainshed jobs logs x --follow ", marks=FULL),
        ("trainshed jobs list --kind pipe", "trainshed jobs list --kind pipeline "),
        pytest.param("trainshed nodes dr", "trainshed nodes drain ", marks=FULL),
    ],
)
def test_a_shell_completes_commands_flags_and_values(shell, text, expected):
    command, setup = SHELLS[shell]
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed (apt install {shell})")
    setup = setup.format(file=FOLDER / SCRIPTS[shell])
    complete(command, setup, text, expected, dict(os.environ))


@pytest.mark.parametrize(
    ("text", "expected"),
    [("jobs desc", "describe"), ("jobs logs x --foll", "--follow"), ("ai custom", "custom-jobs")],
)
def test_fish_completes_commands_and_flags(text, expected, tmp_path):
    if shutil.which("fish") is None:
        pytest.skip("fish is not installed (apt install fish)")
    assert fish_answers(text, {**os.environ, "HOME": str(tmp_path)}) == [expected]


def fish_answers(text, environ):
    """What fish offers for the words behind ``trainshed``."""
    asking = f"source {FOLDER / SCRIPTS['fish']}; complete -C 'trainshed {text}'"
    words = [shutil.which("fish"), "--no-config", "-c", asking]
    process = subprocess.run(words, env=environ, capture_output=True, text=True, check=True)
    return [line.split("\t")[0] for line in process.stdout.splitlines()]


@pytest.mark.parametrize("shell", SCRIPTS)
def test_a_shell_completes_the_names_of_jobs(shell, tmp_path):
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed (apt install {shell})")
    stub, traces = tmp_path / "trainshed", tmp_path / "traces"
    evil = f"x$(touch {traces})`touch {traces}`;touch {traces}"  # the name of another user's job
    stub.write_text("#!/bin/sh\n[ \"$*\" = 'jobs list --limit 100 --format value(displayName)' ]"
                    f" && printf '%s\\n' census_1 other '{evil}'\n")  # fmt: skip
    stub.chmod(0o755)
    environ = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "HOME": str(tmp_path)}
    if shell == "fish":
        assert fish_answers("jobs logs cen", environ) == ["census_1"]
        assert not traces.exists()
        return
    command, setup = SHELLS[shell]
    setup = setup.format(file=FOLDER / SCRIPTS[shell])
    complete(command, setup, "trainshed jobs logs cen", "trainshed jobs logs census_1 ", environ)
    assert not traces.exists()


def test_the_man_page_has_every_verb(trainshed):
    page = trainshed("man").out
    assert page == MAN_PAGE.read_text()
    for verb in VERBS:
        assert verb.hidden or f"trainshed {verb.text}".replace("-", "\\-") in page


def test_man_reads_the_page_without_an_error():
    if shutil.which("man") is None:
        pytest.skip("man is not installed (apt install man-db)")
    environ = {**os.environ, "MANWIDTH": "100"}
    words = [shutil.which("man"), "-l", MAN_PAGE]
    process = subprocess.run(words, env=environ, capture_output=True, text=True, check=True)
    assert "trainshed - run AI Platform and Vertex AI training jobs" in process.stdout


def test_the_man_page_is_shown_by_man_on_a_terminal():
    if shutil.which("man") is None:
        pytest.skip("man is not installed (apt install man-db)")
    words = [sys.executable, "-m", "trainshed.cli.main", "man"]
    with Terminal(words, env={**os.environ, "PAGER": "cat", "MANPAGER": "cat"}) as terminal:
        assert terminal.wait() == 0
        assert "TRAINSHED(1)" in terminal.text
