"""Forks programs from a process that has imported their modules; tests start it by its path.

    python fork_server.py LISTENER MODULE ...

LISTENER is the descriptor of a socket.  A client connects, sends a request and receives the pid,
and later the exit status.  A program ends with its client, and all programs end with standard
input.
"""

import atexit
import contextlib
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import sys
import tempfile

#: The size of a request, which has all variables of its program.
REQUEST_BYTES = 1 << 20


def serve(listener):
    """Fork; return in each fork, with its request."""
    woken, wakes = socket.socketpair()
    wakes.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wakes.fileno(), warn_on_full_buffer=False)
    running = {}
    while True:
        ready = select.select([sys.stdin, woken, listener, *running], [], [])[0]
        if sys.stdin in ready:
            for pid in running.values():
                os.kill(pid, signal.SIGKILL)
            sys.exit()
        if woken in ready:
            woken.recv(64)
            _tell(running)
        for asker in {*ready} & {*running}:
            os.kill(running[asker], signal.SIGKILL)  # the asker has gone
        if listener in ready:
            asker = listener.accept()[0]
            request = json.loads(asker.recv(REQUEST_BYTES))
            pid = os.fork()
            if pid == 0:
                for resource in (asker, listener, woken, wakes, *running):
                    resource.close()
                return request
            running[asker] = pid
            asker.send(json.dumps(pid).encode())


def _tell(running):
    """Send each client the exit status of its program."""
    for asker, pid in list(running.items()):
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            del running[asker]
            with asker, contextlib.suppress(BrokenPipeError):
                asker.send(json.dumps(os.waitstatus_to_exitcode(status)).encode())


def become(request):
    """Set up what an executed program has: its own session, output, variables and arguments."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()
    for descriptor, path, flags in (
        (0, os.devnull, os.O_RDONLY),
        (1, request["output"], os.O_WRONLY | os.O_APPEND | os.O_CREAT),
        (2, request["errors"], os.O_WRONLY | os.O_APPEND | os.O_CREAT),
    ):
        opened = os.open(path, flags, 0o644)
        os.dup2(opened, descriptor)
        os.close(opened)
    os.environ.clear()
    os.environ.update(request["env"])
    os.chdir(request["cwd"])
    tempfile.tempdir = None
    sys.argv = request["argv"]


def run(argv):
    """Run the program as its interpreter would."""
    if argv[0].endswith(".py"):
        sys.path.insert(0, os.path.dirname(argv[0]))  # noqa: PTH120 - as its interpreter does
        runpy.run_path(argv[0], run_name="__main__")
        return 0
    sys.path.pop(0)  # the folder of this file
    from trainshed.cli.main import main  # noqa: PLC0415 - only who asks for it has it

    return main()


def leave(status):
    """End without the interpreter's shutdown, which would write to all pages that forks share.  The
    first registered handler is called last: threads and other handlers have ended.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(*status)


if __name__ == "__main__":
    ended = [1]  # unless it says otherwise
    atexit.register(leave, ended)
    descriptor, *modules = sys.argv[1:]
    for name in modules:
        importlib.import_module(name)
    gc.freeze()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    become(serve(socket.socket(fileno=int(descriptor))))
    try:
        ended[0] = run(sys.argv)
    except SystemExit as system_exit:
        ended[0] = (system_exit.code or 0) if isinstance(system_exit.code, int | None) else 1
        raise
    sys.exit(*ended)
