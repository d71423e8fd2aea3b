"""Starts a program in an isolation mode and checks that it is isolated; ``choose`` runs this."""

import os
import sys
from typing import Final

from trainshed.engines.isolation import seccomp
from trainshed.engines.isolation.enter import isolate_program
from trainshed.engines.isolation.view import Mounts, ReplicaView
from trainshed.engines.processes import tree
from trainshed.engines.processes.trial import run_forked

#: Writes to its own folder $1, tries to read the hidden folder $2; $3 is the expected Seccomp mode.
_PROGRAM: Final = (
    '{ echo 1 > "$1/file"; } 2> /dev/null || exit 3; cat "$2/file" 2> /dev/null && exit 4\n'
    'while read -r name mode; do [ "$name" = Seccomp: ] && break; done < /proc/self/status\n'
    '[ "${mode:-0}" -ge "$3" ] || exit 5'
)
_FAULTS: Final = {
    3: "a program cannot write to its own folder",
    4: "a program can read a hidden file",
    5: "a program's system calls are not filtered",
}
_FILTERED: Final = "2"


def main(mode: str, folder: str, uid: str, refused_calls: str) -> int:
    """Try a mode in an empty folder; if it does not work, print why and return 1.

    ``refused_calls`` are families of system calls with commas between them.
    """
    own, hidden, tmp = (f"{folder}/{name}" for name in ("own", "hidden", "tmp"))
    for path in (own, hidden, tmp):
        os.mkdir(path, 0o700)
    os.chmod(tmp, 0o1777)  # noqa: S103 - as the temporary folder of an attempt
    with open(f"{hidden}/file", "w", encoding="ascii") as file:
        file.write("secret")
    os.chmod(f"{hidden}/file", 0o644)
    user = int(uid) if os.geteuid() == 0 and mode == "users" else None
    if user is not None:
        os.chown(own, user, user)
    view = ReplicaView(
        mode,
        writes=(own,),
        hides=(folder,),
        tmp=tmp,
        uid=user,
        gid=user,
        refused_calls=tuple(filter(None, refused_calls.split(","))),
    )
    is_filtered = view.refused_calls and seccomp.is_known(os.uname().machine)
    filtered = _FILTERED if is_filtered else "0"
    fault = _run(view, ("/bin/sh", "-c", _PROGRAM, "sh", own, hidden, filtered))
    sys.stdout.write(f"{fault}\n" if fault else "")
    return int(bool(fault))


def _run(view: ReplicaView, argv: tuple[str, ...]) -> str:
    try:
        run = isolate_program(view, argv, Mounts(), dict(os.environ))
    except Exception as error:  # noqa: BLE001 - after any error the mode does not work
        return str(error) or type(error).__name__
    parent = os.getpid()

    def become_program() -> str:
        if run.enter is not None:
            run.enter()
        tree.die_with_parent(parent)  # a change of the user resets this
        os.execve(run.argv[0], run.argv, run.env)  # noqa: S606 - a shell of the machine

    words, status = run_forked(become_program)
    if words or not status:
        return words
    return _FAULTS.get(status, f"a program ends with status {status}")
