"""Makes the network of an attempt once and checks which addresses programs can reach.

``choose`` runs this module as a program.  It prints why jobs cannot have such a network on this
machine; nothing if they can.
"""

import os
import select
import socket
import subprocess
import sys
from contextlib import suppress
from typing import Final

from trainshed.engines.isolation.modes import SANDBOX
from trainshed.engines.isolation.sandbox import find_bubblewrap
from trainshed.engines.network.namespaces import (
    Namespaces,
    change_host_name,
    enter_namespace,
    make_namespaces,
)
from trainshed.engines.network.rule import NetworkRule, replica_address
from trainshed.engines.network.way_out import (
    NO_TUN,
    NOT_INSTALLED,
    PROGRAM,
    START_S_MAX,
    TUN,
    find_program,
    leave_mounts,
    way_out_command,
)
from trainshed.engines.processes import tree
from trainshed.engines.processes.trial import run_forked

_LOOPBACK: Final = "127.0.0.1"
_RULE: Final = NetworkRule((replica_address(0), replica_address(1)), shared=False)


def main(mode: str) -> int:
    """Make the network; return 1 and print the reason if it does not work, else 0."""
    why = _why_not(mode)
    sys.stdout.write(f"{why}\n" if why else "")
    return int(bool(why))


def _why_not(mode: str) -> str:
    program = find_program()
    if not program:
        return NOT_INSTALLED
    try:
        spaces = make_namespaces(_RULE, owns_user=os.geteuid() != 0)
    except OSError as error:
        return f"{error.filename}: {error.strerror}"
    with socket.create_server((_LOOPBACK, 0)) as listener:
        port = listener.getsockname()[1]
        why = _check_inside(spaces, mode, port)
    return why or _way_out(program, spaces)


def _check_inside(spaces: Namespaces, mode: str, port: int) -> str:
    """Return the fault in the network of the first replica; empty without one."""
    parent = os.getpid()

    def check() -> str:
        enter_namespace(spaces.user, spaces.replicas[0].net)
        tree.die_with_parent(parent)  # after the user namespace, which may undo it
        return _check_isolation(mode, port)

    return run_forked(check).words


def _check_isolation(mode: str, port: int) -> str:
    """Return the fault: the replica reaches the machine, or bubblewrap fails; empty if none."""
    change_host_name("trial")
    with suppress(OSError), socket.create_connection((_LOOPBACK, port), timeout=1):
        return "a program in a network of its own reaches the loopback of the machine"
    if mode != SANDBOX:
        return ""
    words = ("--unshare-user", "--disable-userns", "--die-with-parent", "--dev-bind", "/", "/")
    argv = (find_bubblewrap(), *words, "true")
    completed = subprocess.run(argv, check=False, capture_output=True, text=True)  # noqa: S603 - ours
    return f"in a user namespace: {completed.stderr.strip()}" if completed.returncode else ""


def _way_out(program: str, spaces: Namespaces) -> str:
    """Return why slirp4netns does not start; empty if it starts."""
    leave_mounts(spaces.user)
    ready, writer = os.pipe()
    reader, _exits = os.pipe()
    descriptors = (writer, reader, spaces.hub.net, *(() if spaces.user is None else (spaces.user,)))
    command = way_out_command(program, spaces.user, spaces.hub.net, reader, ready=writer)
    with subprocess.Popen(  # noqa: S603 - ours
        command, pass_fds=descriptors, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env={}
    ) as process:
        os.close(writer)
        is_ready = bool(select.select([ready], [], [], START_S_MAX)[0]) and bool(os.read(ready, 1))
        process.kill()
        output = process.communicate()[0].decode(errors="replace").splitlines()
    if is_ready:
        return ""
    if not os.access(TUN, os.R_OK | os.W_OK):
        return NO_TUN
    errors = [line for line in output if not line.startswith(("*", "WARNING"))]
    return f"{PROGRAM} does not start: {errors[-1] if errors else 'it printed no reason'}"
