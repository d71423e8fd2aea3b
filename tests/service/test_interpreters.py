"""What an interpreter says of itself."""

import json
import subprocess
import sys

from trainshed.service.starts import interpreters


def test_a_python_37_without_importlib_metadata_says_what_it_has():
    without = "import sys\nsys.modules['importlib.metadata'] = None\n"
    names = ["pytest", "scikit-learn", "nobody-made-this"]
    answers = [
        json.loads(
            subprocess.run(
                [sys.executable, "-I", "-c", text + interpreters._SCRIPT, "no_module", *names],
                check=True,
                capture_output=True,
            ).stdout
        )
        for text in ("", without)
    ]
    assert answers[0]["versions"].keys() >= {"pytest"}
    assert answers[0] == answers[1]
