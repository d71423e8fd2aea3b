"""A question to a Python interpreter: a script that prints its answer as JSON."""

import json
from typing import Any, Final

#: An interpreter on a busy machine, whose packages lie on a shared disk, starts within this.
ANSWER_S_MAX: Final = 60.0


def ask_interpreter(python: str, script: str, *args: str) -> Any:
    """Run a script in an interpreter, apart from the user's packages; return what it printed.

    Raises OSError, ValueError, and subprocess.SubprocessError, also after ``ANSWER_S_MAX``.
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
