"""Runs scripts of Google's unmodified clients by the Pythons that have them; reads what they print.

A script prints one line, ``RESULTS`` and a JSON object: what each of its calls came to.
"""

import functools
import json
import os
import subprocess
import tempfile
from pathlib import Path

import pytest

from forked import ForkServer

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
#: Virtual environments with the Vertex SDK, by its version.
SDKS = {"newest": ".venv-google", "1.60.0": ".venv-google-old"}
#: What the scripts of such an environment import, which takes longer than most of their calls.
IMPORTS = {
    ".venv-google": ("google.cloud.aiplatform", "google.cloud.storage"),
    ".venv-google-old": ("google.cloud.aiplatform", "google.cloud.storage"),
    ".venv-gs": ("google.cloud.logging",),
}
RUN_S_MAX = 400
OUTPUT_MAX = 3000


def python_of(venv):
    """The interpreter of a virtual environment; skips the test where there is none."""
    python = ROOT / venv / "bin" / "python"
    if not python.exists():
        pytest.skip(f"{venv} is not installed; make test installs it")
    return python


def bucket_variables(server, project, bucket):
    """The variables by which a storage client uses a bucket of a server."""
    path = f"/trainshed/v1/projects/{project}/bucketTokens"
    status, token = server.call("POST", path, {"bucket": bucket})
    assert status == 200, token
    return {"STORAGE_EMULATOR_HOST": f"{server.url}/as/{token['token']}"}


@functools.cache
def fork_server_of(venv):
    """Starts scripts in a virtual environment."""
    return ForkServer(*IMPORTS[venv], python=python_of(venv), PYTHONWARNINGS="ignore")


def run_script(server, venv, script, *words, **environ):
    """Run a script of this folder; what its calls came to, of which none may have crashed."""
    argv = [HERE / script, *words]
    env = {**os.environ, **server.certificates, **environ}
    with tempfile.TemporaryDirectory() as folder:
        output, errors = Path(folder, "output"), Path(folder, "errors")
        if server.url.startswith("https:"):  # libraries look at import whom to trust
            with output.open("wb") as out, errors.open("wb") as err:
                command = [python_of(venv), "-W", "ignore", *argv]
                subprocess.run(
                    command, env=env, stdout=out, stderr=err, timeout=RUN_S_MAX, check=False
                )
        else:
            fork = fork_server_of(venv).start(argv, env=env, output=output, errors=errors)
            fork.wait(RUN_S_MAX)
        printed = (output.read_text(), errors.read_text(), server.output())
    results = results_of(printed[0])
    assert results is not None, "\n".join(text[-OUTPUT_MAX:] for text in printed)
    crashes = {
        name: result["crashed"]
        for name, result in results.items()
        if isinstance(result, dict) and "crashed" in result
    }
    assert crashes == {}
    return results


def run_sdk_script(server, way, script, *words, **environ):
    """The same for a script of the Vertex SDK; ``way`` is the SDK's version and its transport."""
    sdk, transport = way
    endpoint = ("--endpoint", server.url if transport == "rest" else server.grpc)
    named = ("--transport", "rest") if transport == "rest" else ()
    connection = (*endpoint, "--token", server.token, *named)
    return run_script(server, SDKS[sdk], script, *connection, *words, **environ)


def results_of(output):
    """The object that a script printed; None where it printed none."""
    lines = (line for line in output.splitlines() if line.startswith("RESULTS "))
    line = next(lines, None)
    return None if line is None else json.loads(line.removeprefix("RESULTS "))
