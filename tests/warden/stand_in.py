"""A program in the place of apptainer: it keeps what it was given, and runs without an image."""

import json
import sys

_TEXT = """\
#!{python}
import json, os, sys
words, where = sys.argv[1:], {record!r}
at = next(i for i, word in enumerate(words) if word.startswith("docker://"))
given = {{name: text for name, text in os.environ.items()}}
inside = {{n[len("APPTAINERENV_"):]: t for n, t in given.items() if n.startswith("APPTAINERENV_")}}
inside.setdefault("PATH", os.defpath)
with open(where + "." + str(os.getpid()), "w") as file:
    json.dump({{"words": words, "env": given, "cwd": os.getcwd()}}, file)
for place in [each for i, each in enumerate(words) if words[i - 1] == "--mount"]:
    source = dict(part.partition("=")[::2] for part in place.split(","))["source"]
    os.stat(source)
command = words[at + 1:] if words[0] == "exec" else ["echo", "the image's own program"]
os.execvpe(command[0], command, inside)
"""


def apptainer(folder):
    """The path of one below a folder that nodes see."""
    folder.mkdir(exist_ok=True)
    path = folder / "apptainer"
    path.write_text(_TEXT.format(python=sys.executable, record=str(folder / "given")))
    path.chmod(0o755)
    return path


def read_calls(folder):
    """What each run of it was given: its words, its environment, where it stood."""
    return [json.loads(path.read_text()) for path in sorted(folder.glob("given.*"))]
