"""Training programs that are hard to end; each says ``ready`` once all of its processes run.

``NAME`` is replaced by a word of the job's own, which stands in the command line of each process:
those that empty their environment are found by it.
"""

from engines.cages import DAEMON, DEAF, FORKED, NOHUP, RUNAWAY, SLEEPER, STOPPED

#: Leaves the job's session, closes every descriptor and forgets its environment.
STRANGER = """
import os, signal, time
read, write = os.pipe()
if os.fork() == 0:
    os.setsid()
    for number in (1, 15):
        signal.signal(number, signal.SIG_IGN)
    if os.fork() == 0:
        os.write(write, b'x')
        os.closerange(0, 4096)
        os.execve('/bin/sleep', ['NAME', '600'], {})
    os._exit(0)
os.read(read, 1)
os.write(1, b'ready\\n')
"""
CLOSED = """
import os, time
os.write(1, b'ready\\n')
for _ in range(3):
    if os.fork() == 0:
        os.setsid()
        break
os.closerange(0, 4096)
time.sleep(600)
"""
SHELL = """
import os
os.execvp('sh', ['sh', '-c', '''
trap "" TERM HUP INT
(setsid sh -c 'trap "" TERM; while :; do sleep 600; done' NAME &)
nohup sleep 600 >/dev/null 2>&1 &
echo ready
while :; do sleep 600; done
''', 'NAME'])
"""
#: Its workers ignore SIGTERM; importing torch takes seconds of CPU, so these are few.
TORCHRUN = """
import os, sys
os.environ['OMP_NUM_THREADS'] = '1'
worker = "trap '' TERM; echo ready; while :; do sleep 600; done"
os.execv(sys.executable, [
    sys.executable, '-m', 'torch.distributed.run', '--standalone', '--nproc-per-node=2',
    '--log-dir', os.getcwd(), '--no-python', 'sh', '-c', worker, 'NAME',
])
"""

LIVING = {
    "sleeper": SLEEPER,
    "deaf": DEAF,
    "forked": FORKED,
    "stopped": STOPPED,
    "daemon": DAEMON + "time.sleep(600)",
    "nohup": NOHUP,
    "runaway": RUNAWAY,
    "stranger": STRANGER + "time.sleep(600)",
    "closed": CLOSED,
    "shell": SHELL,
}
#: These end by themselves, and leave something behind.
ENDING = {
    "succeeds": (DAEMON, "JOB_STATE_SUCCEEDED"),
    "succeeds, stranger": (STRANGER, "JOB_STATE_SUCCEEDED"),
    "fails": (DAEMON + "raise SystemExit(3)", "JOB_STATE_FAILED"),
    "killed": (STRANGER + "os.kill(os.getpid(), signal.SIGKILL)", "JOB_STATE_FAILED"),
}


def program(code, word):
    """The code of a trainer with a word of the job's own in it."""
    return f"# {word}\n" + code.replace("NAME", word)
