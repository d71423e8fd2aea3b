"""Runs a script that prints its answer as JSON in another Python interpreter."""

import json
from typing import Any, Final

#: Seconds; enough for an interpreter on a busy machine with its packages on a shared disk.
ANSWER_S_MAX: Final = 60.0


def ask_interpreter(python: str, script: str, *args: str) -> Any:
    """Run a script in an interpreter, without the user's packages; return the JSON that it prints.

    Raises OSError, ValueError for output that is not JSON, and subprocess.SubprocessError for a
    script that fails or does not end within ``ANSWER_S_MAX`` seconds.
    """
    import subprocess  # noqa: PLC0415 - slow to import, and rarely needed

    answer = subprocess.run(  # noqa: S603 - an interpreter of the server's configuration
        [python, "-I", "-c", script, *args],
        capture_output=True,
        check=True,
        text=True,
        timeout=ANSWER_S_MAX,
    )
    return json.loads(answer.stdout)
