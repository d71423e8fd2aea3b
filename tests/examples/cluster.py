"""Run an example as its page says: through the command line, in its own folder."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
TIMEOUT_S = 240
TRAINSHED = Path(sys.executable).parent / "trainshed"
TRAIN = (
    "ai-platform", "local", "train", "--module-name", "trainer.task", "--package-path", "trainer",
)  # fmt: skip
LINE = re.compile(r"^(?P<name>[a-z]+(?:-[a-z]+)?\d?-\d+) +│ ?(?P<text>.*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a run ended: the command's exit code, and what each replica printed, by its name."""

    code: int
    output: Mapping[str, str]
    text: str
    seconds: float

    @property
    def primary(self) -> str:
        """What the primary printed."""
        names = ("master-replica-0", "workerpool0-0")
        return next(self.output[name] for name in names if name in self.output)

    @property
    def last_line(self) -> str:
        """The last thing that the primary printed."""
        return self.primary.rstrip().splitlines()[-1]

    def story(self) -> str:
        """Everything that was printed, for a failing assertion."""
        return f"exit code {self.code} after {self.seconds:.1f} s\n{self.text[-8000:]}"


def run(
    example: str, job_dir: Path, *, args: Sequence[object] = (), workers: int | None = None
) -> Outcome:
    """Run an example of AI Platform: from its config.yaml, or with so many workers instead."""
    cluster = ["--config", "config.yaml"]
    if workers is not None:
        counts = ("--worker-count", workers, "--parameter-server-count", 0)
        cluster = ["--distributed", *map(str, counts)] if workers else []
    return call(example, *TRAIN, *cluster, "--job-dir", job_dir, "--", *args)


def run_vertex(example: str, base_output_dir: Path) -> Outcome:
    """Run an example's Vertex job, from its job.yaml."""
    job = ("ai", "custom-jobs", "local-run", "--config", "job.yaml")
    return call(example, *job, "--base-output-dir", base_output_dir)


def call(example: str, *argv: object, timeout_s: float = TIMEOUT_S) -> Outcome:
    """Call ``trainshed`` in an example's folder and read its output apart, replica by replica."""
    started = time.monotonic()
    done = subprocess.run(
        [TRAINSHED, *map(str, argv)],
        cwd=EXAMPLES / example,
        env={**os.environ, "NO_COLOR": "1"},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=timeout_s,
        check=False,
    )
    output: dict[str, str] = {}
    for match in LINE.finditer(done.stdout):
        name = match["name"]
        output[name] = output.get(name, "") + match["text"] + "\n"
    return Outcome(
        code=done.returncode,
        output=output,
        text=done.stdout,
        seconds=time.monotonic() - started,
    )


def needs(*modules: str) -> pytest.MarkDecorator:
    """Skip a test, and say why, where the frameworks of an example are not installed."""
    missing = [module for module in modules if find_spec(module) is None]
    return pytest.mark.skipif(bool(missing), reason=f"not installed: {', '.join(missing)}")
