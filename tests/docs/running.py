"""Run the blocks of a page in a clean folder, and report the first that does not do as it shows."""

import os
import re
import shlex
import shutil
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from docs.pages import FILES, Block, Command, PageError, read_blocks, split_commands
from docs.shell import Shell
from docs.shown import find_difference
from trainshed.config.load import load_settings
from trainshed.model.faults import UsageFault

ROOT: Final = Path(__file__).parent.parent.parent
#: The address that pages show; a test's server has a free port instead.
PRINTED_ADDRESS: Final = "http://127.0.0.1:8080"
#: What a reader of a page in a clone has; jobs write beside their programs, so they get a copy.
COPIED: Final = ("examples", "systemd", "trainer")
LINKED: Final = (
    *("benchmarks", "docs", "locks", "scripts", "src", "tests"),
    *("Makefile", "constraints.txt", "pyproject.toml", "setup.py", "README.md"),
)
#: In the place of a trainer that imports PyTorch three times, where the suite has little time.
QUICK_TASK: Final = Path(__file__).parent / "quick_task.py"
#: What a test has left beside the sources.
NOT_COPIED: Final = shutil.ignore_patterns("__pycache__", "*.egg-info", "build")
KEPT_VARIABLES: Final = ("LANG", "USER", "SSL_CERT_FILE")
SERVE: Final = re.compile(r"^(\$ )?trainshed serve\b(?! --run| --help)", re.MULTILINE)


class BlockError(AssertionError):
    """A block that does not do what its page says: page, line, command and output."""

    def __init__(self, page: str, line: int, what: str, text: str, output: str) -> None:
        block = f"--- the block\n{text.rstrip()}\n--- its output\n{output}"
        super().__init__(f"{page}:{line}: {what}\n{block}")


@dataclass(frozen=True)
class Place:
    """Where a page is run: its folder, variables, and the address of its server."""

    clone: Path
    env: dict[str, str]
    scratch: Path


def starts_server(blocks: list[Block]) -> bool:
    """Whether a page has a server of its own."""
    return any(SERVE.search(block.text) and not block.reason_not_to_run for block in blocks)


def has_commands(blocks: list[Block]) -> bool:
    """Whether a page needs a server: files alone do not."""
    due = (block for block in blocks if not block.reason_not_to_run)
    return any(not block.options.keys() & {"file", "settings"} for block in due)


def make_place(folder: Path, data_dir: Path | None, *, full: bool) -> Place:
    """Make a clean folder like a clone, with a home, and a data directory of its own if None."""
    clone, home, scratch = folder / "clone", folder / "home", folder / "scratch"
    for path in (clone, home, scratch, folder / "tmp"):
        path.mkdir()
    for name in COPIED:
        shutil.copytree(
            ROOT / name,
            clone / name,
            ignore=shutil.ignore_patterns("__pycache__", "*.egg-info", "build"),
        )
    for name in LINKED:
        (clone / name).symlink_to(ROOT / name)
    if not full:
        shutil.copy(QUICK_TASK, clone / "examples/torch-ddp/trainer/task.py")
    if data_dir is None:
        data_dir = folder / "data"
        data_dir.mkdir()
        (data_dir / "config.toml").write_text("[server]\nport = 0\ngrpc_port = 0\n")
    return Place(clone, _variables(home, data_dir, folder / "tmp"), scratch)


def _variables(home, data_dir, temporary):
    inherited = {name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ}
    owner = {name: value for name, value in os.environ.items() if name.startswith("PYTEST_")}
    environment = Path(sys.executable).parent
    return {
        **inherited,
        **owner,  # the suite finds by it what a page leaves behind
        "PATH": f"{environment}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "VIRTUAL_ENV": str(environment.parent),
        "GOOGLE_BIN": str(ROOT / ".venv-google/bin"),
        "HOME": str(home),
        "TMPDIR": str(temporary),
        "COLUMNS": "200",
        "TRAINSHED_DATA_DIR": str(data_dir),
        "TRAINSHED_CACHE_DIR": str(data_dir / "cache"),
        "CLOUDSDK_CORE_DISABLE_PROMPTS": "1",
        "CLOUDSDK_CORE_DISABLE_USAGE_REPORTING": "true",
        "CLOUDSDK_COMPONENT_MANAGER_DISABLE_UPDATE_CHECK": "true",
    }


def run_page(page: Path, place: Place, *, full: bool, name: str = "") -> int:
    """Run a page's blocks and return how many ran; raise BlockError for the first that fails."""
    shell = Shell(place.clone, place.env, place.scratch)
    run = _PageRun(name or page.name, shell, place.scratch)
    try:
        return sum(run.run_block(block) for block in read_blocks(page) if _is_due(block, full=full))
    finally:
        shell.close()


def _is_due(block, *, full):
    return not block.reason_not_to_run and (full or "full" not in block.options)


class _PageRun:
    """The state that a page's blocks share besides their shell: what stands for placeholders."""

    def __init__(self, page, shell, scratch):
        self._page = page
        self._shell = shell
        self._scratch = scratch
        self._replacements = {}

    def run_block(self, block) -> bool:
        if block.language == "replace":
            self._add_replacement(block)
            return False
        block = replace(block, text=self._fill_in(block.text))
        if "file" in block.options:
            self._write_file(block)
        elif "settings" in block.options:
            self._read_settings(block)
        elif block.language in FILES:
            self._run_python(block)
        else:
            self._run_commands(block)
        return block.language != "setup"

    def _add_replacement(self, block):
        placeholder, _, value = (part.strip() for part in block.text.partition("="))
        result = self._run(Command(block.line, f"printf %s {value}", None))
        self._replacements[placeholder] = result.output

    def _fill_in(self, text):
        if PRINTED_ADDRESS in text:
            address = self._run(Command(0, PRINT_ADDRESS, None)).output.strip()
            text = text.replace(PRINTED_ADDRESS, address)
        for placeholder, value in self._replacements.items():
            pattern = rf"(?<!\w){re.escape(placeholder)}(?![\w-])"
            text = re.sub(pattern, lambda _, value=value: value, text)
        return text

    def _write_file(self, block):
        name = shlex.quote(block.options["file"])
        text = f'mkdir -p "$(dirname {name})" && cat > {name} {_here(block)}'
        self._run(Command(block.line, text, None))

    def _read_settings(self, block):
        file = self._scratch / "config.toml"
        file.write_text(block.text)
        try:
            load_settings(file, {}, {"data_dir": str(self._scratch)})
        except UsageFault as fault:
            what = "its settings are refused"
            raise BlockError(self._page, block.line, what, block.text, str(fault)) from fault

    def _run_python(self, block):
        environment = block.options["python"]
        python = ROOT / environment / "bin" / "python"
        if not python.exists():
            raise PageError(f"{self._page}:{block.line}: {python} does not exist")
        text = f"{shlex.quote(str(python))} - {_here(block)}"
        self._run(Command(block.line, text, None))

    def _run_commands(self, block):
        *firsts, last = split_commands(block)
        for command in firsts:
            self._compare(command, self._run(command), block)
        self._compare(last, self._run(last, int(block.options.get("exit", 0))), block)

    def _run(self, command, status=0):
        result = self._shell.run(command.text, may_fail=status != 0)
        if result.status != status:
            what = f"the exit status must be {status}, got {result.status}"
            raise BlockError(self._page, command.line, what, command.text, result.output)
        return result

    def _compare(self, command, result, block):
        if command.shown is None:
            return
        any_order = "any-order" in block.options
        difference = find_difference(command.shown, result.output, any_order=any_order)
        if difference:
            what = f"the page shows what the command did not print: {difference}"
            raise BlockError(self._page, command.line, what, command.text, result.output)


def _here(block):
    """The block as the standard input of a command of the shell."""
    return f"<<'END OF THE BLOCK'\n{block.text}END OF THE BLOCK"


PRINT_ADDRESS: Final = """python -c 'import json, os
print(json.load(open(os.environ["TRAINSHED_DATA_DIR"] + "/server.json"))["url"])'"""
