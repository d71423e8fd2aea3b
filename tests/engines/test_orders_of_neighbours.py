"""A job that is the server's user orders the supervisors of other jobs about; none obeys."""

import json
from dataclasses import replace

import pytest

from engines.attempts import (
    KEY,
    OTHER,
    ended,
    engine_at,
    folder,
    lines,
    marked,
    observe,
    order,
    texts,
)
from engines.isolating import isolation_of
from engines.support import FOREVER, wait_until
from trainshed.engines.local.attempts import attempt
from trainshed.engines.supervise.record.folder import AttemptFolder
from trainshed.model.attempt import Phase
from trainshed.model.launch_plan import Owner

NUMBER = 3
STOP = {"do": "stop", "order": {"grace_s": 0.0}, "words": "stopped by a stranger"}
LOG = {"do": "log", "task": "master-replica-0", "lines": [["forged", "ERROR"]]}
#: Half a character, which no file takes: it ended a supervisor, and with it the job.
BROKEN = {"do": "stop", "key": "\ud800"}

#: Sends both messages to each socket that it finds or is told of, by all that may be a name of it,
#: as itself and as an orphan that has dropped its marks; then tries the files.
ATTACKS = r"""
import glob, json, os, resource, socket, sys, time
told, messages = sys.argv[1], [json.dumps(each).encode() for each in json.loads(sys.argv[2])]
def read(path):
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""
folders = {told}
for name in filter(str.isdecimal, os.listdir("/proc")):
    for word in read(f"/proc/{name}/cmdline").split(b"\0"):
        if word.startswith(b"/") and os.path.exists(word + b"/control"):
            folders.add(os.fsdecode(word))
def send(name):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        for message in messages:
            try:
                sender.sendto(message, name)
                sent.append(name)
            except OSError:
                pass
sent = []
def send_all():
    for folder in folders:
        descriptor = os.open(folder, os.O_PATH)
        send(f"/proc/self/fd/{descriptor}/control")
    for line in read("/proc/net/unix").decode(errors="replace").splitlines()[1:]:
        name = line.split(None, 7)[7:]
        if name and name[0].startswith("@"):
            send("\0" + name[0][1:])
        elif name and name[0].endswith("control"):
            send(name[0])
    for path in glob.glob("/proc/[0-9]*/fd/*"):
        send(path)
send_all()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        resource.setrlimit(resource.RLIMIT_RSS, (1 << 30, 1 << 30))
        send_all()
        print("orphan", len(sent), flush=True)
        time.sleep(600)
    os._exit(0)
done = []
for folder in folders:
    for name in ("stop", "orders.key", "plan.json", "lock", "records.jsonl"):
        try:
            os.close(os.open(f"{folder}/{name}", os.O_RDWR))
            done.append(f"opened {name}")
        except OSError:
            pass
        if read(f"{folder}/{name}"):
            done.append(f"read {name}")
    for act in (lambda: open(f"{folder}/stop", "x"), lambda: os.unlink(f"{folder}/control"),
                lambda: os.rename(f"{folder}/work", f"{folder}/stop")):
        try:
            act()
            done.append("changed the folder")
        except OSError:
            pass
print("did", json.dumps(done), flush=True)
"""


@pytest.fixture
def neighbours(root, mark):
    """An engine of the mode landlock, with one job that runs; and another that attacks it."""
    engine = engine_at(root, isolation=isolation_of("landlock", root), pass_env=())

    def launch(key, code, number, *arguments):
        plan = marked(mark, code)
        (replica,) = plan.replicas
        replica = replace(replica, argv=(*replica.argv, *arguments))
        owner = Owner(project=f"project-{number}", number=number)
        engine.launch(key, replace(plan, replicas=(replica,), owner=owner), ())

    launch(KEY, "print('ready', flush=True)\n" + FOREVER, NUMBER)
    wait_until(lambda: "ready" in texts(root), "the neighbour runs")
    wait_until((folder(root) / "control").exists, "its supervisor takes orders")
    return engine, launch


def test_a_job_cannot_stop_a_neighbour_or_write_into_its_log(root, neighbours):
    engine, launch = neighbours
    launch(OTHER, ATTACKS + FOREVER, NUMBER + 1, str(folder(root)), json.dumps([STOP, LOG, BROKEN]))

    def read_attacks():
        return [text for text in texts(root, key=OTHER) if text.startswith(("orphan", "did"))]

    wait_until(
        lambda: len(read_attacks()) == 2, lambda: f"both have attacked, not {read_attacks()}"
    )
    orphan, done = sorted(read_attacks(), reverse=True)
    assert orphan != "orphan 0", "no message was sent"
    assert done == "did []"
    wait_until(
        lambda: any("refused a message" in entry.text for entry in lines(root)), "its log says so"
    )
    heard(root)
    assert observe(engine).phase is Phase.READY
    assert "forged" not in [line.text for line in lines(root)]
    engine.stop(KEY, order(0.0))
    assert "stopped by a stranger" not in ended(engine).outcome.message


def heard(root):
    """The supervisor has read what was sent before: it has added a line that came after."""
    control = AttemptFolder(folder(root))
    wait_until(lambda: attempt.send_lines(control, "t", [("after", "INFO")]), "it takes a line")
    wait_until(lambda: "after" in texts(root, "t"), "its line is there")


#: Reads the secret, as the mode none lets it, and sends as itself, as an orphan, and as one that
#: has dropped its marks.
KNOWS = r"""
import json, os, resource, socket, sys, time
folder, messages = sys.argv[1], json.loads(sys.argv[2])
with open(folder + "/orders.key") as file:
    key = json.load(file)
def send():
    descriptor = os.open(folder, os.O_PATH)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        for message in messages:
            data = json.dumps({**message, "key": key}).encode()
            sender.sendto(data, f"/proc/self/fd/{descriptor}/control")
send()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        resource.setrlimit(resource.RLIMIT_RSS, (1 << 30, 1 << 30))
        send()
        print("orphan", flush=True)
        time.sleep(600)
    os._exit(0)
"""


def test_a_process_of_another_job_is_refused_though_it_knows_the_secret(root, mark):
    engine = engine_at(root)
    engine.launch(KEY, marked(mark, "print('ready', flush=True)\n" + FOREVER), ())
    wait_until(lambda: "ready" in texts(root), "the neighbour runs")
    wait_until((folder(root) / "control").exists, "its supervisor takes orders")
    plan = marked(mark, KNOWS + FOREVER)
    (replica,) = plan.replicas
    argv = (*replica.argv, str(folder(root)), json.dumps([STOP, LOG]))
    engine.launch(OTHER, replace(plan, replicas=(replace(replica, argv=argv),)), ())
    wait_until(lambda: "orphan" in texts(root, key=OTHER), "it has sent")
    heard(root)
    assert observe(engine).phase is Phase.READY
    assert "forged" not in [line.text for line in lines(root)]
