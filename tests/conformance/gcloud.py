"""Real gcloud for tests: one warm process for wide matrices, and honest subprocesses."""

import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

GCLOUD = shutil.which("gcloud")
HERE = Path(__file__).parent

needs_gcloud = pytest.mark.skipif(
    GCLOUD is None, reason="no gcloud: put the Google Cloud SDK on PATH"
)


@dataclass(frozen=True)
class Answer:
    code: int
    stdout: str
    stderr: str

    def ok(self):
        assert self.code == 0, f"exit {self.code}\n{self.stdout}\n{self.stderr}"
        return self


def sdk_root():
    """The folder that holds the SDK's lib, wherever the command is a link to."""
    root = Path(GCLOUD).resolve().parent.parent
    return root if (root / "lib").is_dir() else Path("/usr/lib/google-cloud-sdk")


def quiet(config_dir):
    """The variables that keep gcloud to itself, without credentials and without prompts."""
    return {
        "CLOUDSDK_CONFIG": str(config_dir),
        "CLOUDSDK_CORE_DISABLE_PROMPTS": "1",
        "CLOUDSDK_CORE_DISABLE_USAGE_REPORTING": "true",
        "CLOUDSDK_COMPONENT_MANAGER_DISABLE_UPDATE_CHECK": "true",
    }


def once(argv, env, cwd, *, config_dir, program=GCLOUD):
    """One real run of the command."""
    done = subprocess.run(
        [program, *argv],
        env={**os.environ, **quiet(config_dir), **env},
        cwd=cwd,
        text=True,
        capture_output=True,
        timeout=240,
        check=False,
    )
    return Answer(done.returncode, done.stdout, done.stderr)


class Warm:
    """A gcloud that is already imported; each command takes a tenth of a second."""

    def __init__(self, config_dir):
        root = sdk_root()
        python = root / "platform" / "bundledpythonunix" / "bin" / "python3"
        self._process = subprocess.Popen(
            [python if python.exists() else "python3", HERE / "gcloud_inproc.py", root],
            env={**os.environ, **quiet(config_dir)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert json.loads(self._process.stdout.readline()) == {"ready": True}

    def __call__(self, argv, env, cwd):
        request = {"argv": [str(word) for word in argv], "env": env, "cwd": str(cwd)}
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, "gcloud's process has died"
        return Answer(**json.loads(answer))

    def close(self):
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait(timeout=60)
