"""A trainer that calls ``jobs.py`` on a port of loopback and takes steps as it is told.

Its models are those of examples/gpu-check, imported only when steps are asked for.
"""

import importlib
import json
import os
import socket
import sys
from pathlib import Path
from typing import Any

EXAMPLE = Path(__file__).parents[2] / "examples" / "gpu-check"
#: The first steps on a GPU find the fastest way; all of them take long on a CPU.
WARM_UP_STEPS = {"cuda": 10, "cpu": 2}


def main() -> None:
    """Say who we are; then answer each line until the other side hangs up."""
    with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as connection:
        lines = connection.makefile("r")
        hello = {"pid": os.getpid(), "visible": os.environ.get("CUDA_VISIBLE_DEVICES")}
        connection.sendall(json.dumps(hello).encode() + b"\n")
        words: list[str] | None = None
        training: Any = None
        for line in lines:
            request = json.loads(line)
            try:
                if request["words"] != words:
                    training = None  # the memory of the one before is given back
                    words, training = request["words"], built(request["words"])
                answer = {"seconds": training.seconds(request["steps"])}
            except Exception as error:  # noqa: BLE001  # told by who has asked
                words, answer = None, {"error": f"{type(error).__name__}: {error}"}
            connection.sendall(json.dumps(answer).encode() + b"\n")


def built(words: list[str]) -> Any:
    """A model that has learned its first steps."""
    sys.path[:0] = [] if str(EXAMPLE) in sys.path else [str(EXAMPLE)]
    steps = importlib.import_module("steps")
    training = steps.Training(steps.arguments(words))
    training.seconds(WARM_UP_STEPS[training.device.type])
    return training


if __name__ == "__main__":
    main()
