"""The place of the deed: a server, the job of beta with its secrets, and what alpha knows."""

import contextlib
import ipaddress
import itertools
import json
import os
import shutil
import socket
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest

import trainshed
import trainshed_trainer
from e2e.chaos import FULL
from e2e.support import CONFIG, FINAL, check_the_end, end_all, good, wait_until
from isolation.as_user import GPUS
from isolation.calls import archive, cancel, make_bucket, read_logs, submit, upload
from isolation.expected import OWN_NETWORK, OWN_USERS, ROOT, USERS, Mode
from isolation.hostile import ATTEMPTS
from isolation.proxy import PASSWORD, Proxy
from isolation.world import FOLDER_BUCKET, World
from server_process import TRAINSHED, ServerProcess, Waiting
from trainshed.engines.isolation import choose
from trainshed.engines.local.port_watch import PAUSE_S
from trainshed.engines.network.choose import try_network
from trainshed.engines.supervise.record.folder import AttemptFolder

HERE = Path(__file__).parent
HOSTILE = HERE / "hostile.py"
BUILD = HERE.parents[1] / "build"
ALPHA, BETA = "alpha-proj", "beta-proj"
SECRET_VARIABLES = ("AWS_SECRET_ACCESS_KEY", "DATABASE_URL", "HF_TOKEN", "VAULT_TOKEN")
PROCESSES = 400
VICTIM = (HERE / "victim.py").read_text()
#: More than the server has for one attempt, and for all.
TUNNELS, CONNECTIONS, DESCRIPTORS_MAX, ENTRIES = 200, 3000, 2600, 12_000
#: How often a job tries to bind while the server is away.
ROUNDS = 500
END_S_MAX = 600
#: Tunnels of jobs are led to the machine's proxy then.
PASSES_PROXY = '[fleet]\npass_env = ["https_proxy"]\n'
#: Lines that a job writes to Cloud Logging are lines of its log; a bucket is a folder.
SETTINGS = f"""\
[gateway]
public = "refuse"
telemetry = "log"
[buckets]
"{FOLDER_BUCKET}" = "file://{{folder}}"
"""
#: What is tried while a package is built; the supervisor's files are known only when a job runs.
GROUPS = ("files", "processes", "sockets", "environment", "privileges", "kernel")
#: All groups that a job tries; those for which a server is killed take long.
TRIED = tuple(dict.fromkeys(group for group, _ in ATTEMPTS.values() if FULL or group != "restarts"))
SETUP = f"""\
import json, pathlib, sys
from setuptools import setup
sys.path.insert(0, "trapped")
facts = json.loads(pathlib.Path("trapped/facts.json").read_text())
import task
facts["own_folder"] = str(pathlib.Path.cwd())
found = list(task.outcomes(facts, {GROUPS}))
pathlib.Path("trapped/built.json").write_text(json.dumps(found))
setup(name="trapped", version="1", packages=["trapped"], package_data={{"trapped": ["*.json"]}})
"""


@dataclass
class Scene:
    """A server and what lies around it."""

    folder: Path
    server: ServerProcess
    mode: Mode
    environ: dict
    proxy: Proxy | None = None
    victim: str = ""
    """The full name of beta's job."""
    sockets: list = field(default_factory=list)

    @property
    def uid(self):
        return self.mode.uid

    @property
    def data(self):
        return self.folder / "data"

    @property
    def cache(self):
        return self.folder / "cache" / "environments"

    @property
    def ports(self):
        """Those of the API and of the gateway, 0 where there is none."""
        return int(self.server.url.rpartition(":")[2]), noted(self, "gateway.json", "port", 0)

    def upload(self, *words):
        return upload(self, *words)


def skip_unless_possible(mode):
    """Say why a mode is not tried here."""
    setting = "container" if mode.is_container else mode.name.partition(",")[0]
    if os.geteuid() != ROOT:
        pytest.skip("only root changes users: run the tests as root")
    if setting not in {"none", "container"} and (
        why_not := choose.try_isolation(setting, choose.IsolationOptions().uids[0])
    ):
        pytest.skip(f"no isolation {setting} here: {why_not}")
    if mode in OWN_NETWORK and (why_not := try_network(setting)):
        pytest.skip(f"jobs have no network of their own here: {why_not}")


@contextlib.contextmanager
def staged(mode, *, environ=None):
    """Start a server of a mode, in a folder that everybody may enter; skips where it cannot be.

    It does not lie in /tmp: where a job has a /tmp of its own, all would be hidden by that alone.
    """
    skip_unless_possible(mode)
    BUILD.mkdir(exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="hostile-", dir=BUILD))
    folder.chmod(0o755)
    scene = None
    try:
        environ = environ or {}
        proxy = Proxy(lambda: scene.ports[0])
        server = prepared(folder, mode, {**environ, "https_proxy": proxy.url})
        scene = Scene(folder, server, mode, environ, proxy)
        with planted(scene), proxy.running():
            try:
                scene.server.start()
                yield scene
                scene.server.stop()
                check_the_end(scene.server)
            finally:
                end_all(scene.server)
    finally:
        shutil.rmtree(folder)


def prepared(folder, mode, environ):
    uid = mode.uid
    for name in ("data", "home", "cache"):
        (folder / name).mkdir(mode=0o700)
        os.chown(folder / name, uid, uid)
    (folder / "open").mkdir()
    (folder / "open").chmod(0o777)
    (folder / FOLDER_BUCKET).symlink_to(folder / "open")
    settings = SETTINGS.format(folder=folder / FOLDER_BUCKET)
    # containers of the tests have no gateway: they would get the proxy itself, with its password
    proxies = "" if mode.is_container else PASSES_PROXY
    (folder / "data" / "config.toml").write_text(proxies + mode.config + settings + CONFIG)
    (folder / "home" / ".netrc").write_text("machine example.com password secret")
    (folder / "home" / ".netrc").chmod(0o600)
    os.chown(folder / "home" / ".netrc", uid, uid)
    environ = {
        "TRAINSHED_CACHE_DIR": str(folder / "cache"),
        "HOME": str(folder / "home"),
        **dict.fromkeys(SECRET_VARIABLES, "a secret of the server's"),
        **environ,
    }
    server = ServerProcess(folder / "data", "--fleet-policy", "emulate", environ=environ)
    if uid != ROOT or not mode.is_container:  # what is in containers is their runtime's to say
        server.program = (sys.executable, HERE / "as_user.py", str(uid), TRAINSHED)
    return server


@contextlib.contextmanager
def planted(scene):
    """Sockets and files that belong to the server's user and to no job."""
    name = scene.folder.name
    with contextlib.ExitStack() as stack:
        for address in (str(scene.folder / "home" / "socket"), f"\0{name}"):
            listener = stack.enter_context(socket.socket(socket.AF_UNIX))
            listener.bind(address)
            listener.listen(64)
            if not address.startswith("\0"):
                os.chown(address, scene.uid, scene.uid)
                Path(address).chmod(0o600)
        for path in (tmp_file(scene), shared_memory(scene)):
            path.write_text("a secret of the server's")
            stack.callback(path.unlink)
            path.chmod(0o600)
            os.chown(path, scene.uid, scene.uid)
        yield


def tmp_file(scene):
    return Path("/tmp") / scene.folder.name  # noqa: S108 - everybody's


def shared_memory(scene):
    return Path("/dev/shm") / scene.folder.name  # noqa: S108 - the same


# ---- what happens there ----


def victim(scene):
    """Have beta's job run; what a neighbour may know of it."""
    make_bucket(scene, BETA, "beta-bucket")
    upload(scene, "beta-bucket", "secret.txt", b"the secret of beta")
    code = f"{VICTIM}# {scene.folder.name}\n"  # another run of the tests has a victim too
    scene.victim = name = submit(scene, BETA, program(scene, "-c", code))
    port = find_in_log(scene, name, port_in)
    (attempt,) = {
        path.parent for path in (scene.data / "jobs").glob("*/*/records.jsonl")
        if (path.parent / "work" / "secret").exists()
    }  # fmt: skip
    facts = {
        "foreign_bucket": str(scene.data / "buckets" / "beta-bucket"),
        "foreign_object": str(scene.data / "buckets" / "beta-bucket" / "secret.txt"),
        "foreign_attempt": str(attempt),
        "foreign_environment": str(foreign_environment(scene)),
        "foreign_port": port,
        "foreign_job": process_facts(process_of(code)),
    }
    return name, facts


def foreign_environment(scene):
    """Packages of beta's, as an earlier job has left them."""
    folder = scene.cache / "0123456789abcdef" / "beta"
    folder.mkdir(parents=True)
    for path in (scene.cache, folder.parent, folder):
        path.chmod(0o700)
        os.chown(path, scene.uid, scene.uid)
    return folder


def find_in_log(scene, name, find):
    """What is found in the log of a job, which must not end before."""

    def look():
        match = find(scene.server.log_of(name))
        state = good(scene.server.call("GET", f"/v1/{name}"))["state"]
        assert match or state not in FINAL, read_logs(scene, name)
        return match

    return wait_until(look, lambda: read_logs(scene, name))


def port_in(log):
    return next((int(line.split()[1]) for line in log.splitlines() if line[:5] == "port "), None)


def facts_of(scene, foreign):
    """What alpha knows."""
    data = scene.data
    return {
        **foreign,
        "data": str(data),
        "token": str(data / "admin-token"),
        "database": str(next(data.glob("*.db"), data / "trainshed.db")),
        "tls_key": str(next((data / "tls").glob("*.key"), data / "tls" / "key.pem")),
        "buckets": str(data / "buckets"),
        "home": str(scene.folder / "home"),
        "cache": str(scene.cache),
        "tmp_file": str(tmp_file(scene)),
        "shared_memory": str(shared_memory(scene)),
        "source": str(Path(trainshed.__file__).parent),
        "trainer_library": str(Path(trainshed_trainer.__file__).parent),
        "site_packages": str(Path(psutil.__file__).parents[1]),
        "private_socket": str(scene.folder / "home" / "socket"),
        "abstract_socket": scene.folder.name,
        "server_port": scene.ports[0],
        "own_addresses": own_addresses(),
        "server": process_facts(scene.server.pid),
        "holder": process_facts(noted(scene, "ports.json", "holder")[0]),
        "docker_socket": scene.environ.get("DOCKER_HOST", "").removeprefix("unix://"),
        "foreign_gpu": f"/dev/{GPUS[0]}",
        "secret_variables": SECRET_VARIABLES,
        "proxy_password": PASSWORD,
        "own_bucket": str(data / "buckets" / "alpha-bucket"),
        "folder_bucket": str(folder_of_bucket(scene)),
        "tunnels": TUNNELS,
        "connections": CONNECTIONS,
        "descriptors_max": DESCRIPTORS_MAX,
        "entries": ENTRIES,
        "rounds": ROUNDS,
        "watch_s": 10 * PAUSE_S,
        "warning": "Jobs share the network of this machine",
        "processes": PROCESSES,
        "flood_mib": 8,
        "flood_lines": 50,
    }


def noted(scene, file, key, otherwise=None):
    """What a file of the data directory says."""
    path = scene.data / file
    return json.loads(path.read_text())[key] if path.exists() else otherwise


def own_addresses():
    """Those of the machine's interfaces, but for loopback and link-local ones."""
    addresses = [
        ipaddress.ip_address(interface.address.partition("%")[0])
        for interface in itertools.chain.from_iterable(psutil.net_if_addrs().values())
        if interface.family in {socket.AF_INET, socket.AF_INET6}
    ]
    own = [
        address for address in addresses if not address.is_loopback and not address.is_link_local
    ]
    return [f"[{address}]" if address.version == 6 else str(address) for address in own]


def folder_of_bucket(scene):
    """Where both the job and what reads the bucket FOLDER_BUCKET in the server may write.

    Few modes let a job write elsewhere than in its own bucket; in *users* the project's user reads
    for the server, and may not enter the data directory.
    """
    is_open = scene.mode in {USERS, OWN_USERS}
    return scene.folder / "open" if is_open else scene.data / "buckets" / "alpha-bucket" / "folder"


def process_facts(pid):
    """A process and an address in it that can be read."""
    line = Path(f"/proc/{pid}/maps").read_text().splitlines()[0]
    return {"pid": pid, "address": int(line.partition("-")[0], 16)}


def tried(scene, *, build=False):
    """What alpha's job could do, {attempt: (outcome, detail)}, and the build of its package."""
    job, foreign = victim(scene)
    facts = facts_of(scene, foreign)
    make_bucket(scene, ALPHA, "alpha-bucket")
    name = submit(scene, ALPHA, packaged(scene, facts) if build else uploaded(scene))
    find_in_log(scene, name, lambda log: "hostile trainer is up" in log)
    facts |= facts_of_job(scene, foreign) | {"gateway_port": scene.ports[1]}
    upload(scene, "alpha-bucket", "facts.json", json.dumps(facts).encode())
    wait_in_world(scene, name)
    log = scene.server.log_of(name)
    assert "hostile trainer is done" in log, log
    assert find_in_log(scene, job, port_in)
    cancel(scene, job)
    return outcomes_in(log, "tried"), outcomes_in(log, "built")


def wait_in_world(scene, name):
    """Wait for the end of a trainer, and do meanwhile what it asks for."""
    world = World(scene, folder_of_bucket(scene))
    waiting = Waiting(END_S_MAX)
    while scene.server.has_ended or not ended(scene, name):
        assert not waiting.is_over, scene.server.output()[-3000:]
        world.answer()
        time.sleep(0.05)


def ended(scene, name):
    return good(scene.server.call("GET", f"/v1/{name}"))["state"] in FINAL


#: Leaves a process in another session, without parents, variables and descriptors; then kills its
#: supervisor.  A second attempt, which is there where that was possible, has nothing to do.
OUTLIVES = """\
import os, signal
if os.environ["TRAINSHED_ATTEMPT"] == "1":
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.closerange(0, 64)
            os.execve("/bin/sleep", [WORD, "600"], {})
        os._exit(0)
    os.wait()
    try:
        os.kill(os.getppid(), signal.SIGKILL)
        os.kill(os.getppid(), 0)
        if os.getppid() in (0, 1):  # it is the first process of its namespace, or its child
            print("denied", flush=True)
    except OSError:
        print("denied", flush=True)
"""


def outlived(scene):
    """What lives of a job that has killed its supervisor, or tried: (processes, log)."""
    word = f"outlives-{scene.folder.name}"
    name = submit(scene, ALPHA, program(scene, "-c", OUTLIVES.replace("WORD", repr(word))))
    scene.server.wait_for(f"/v1/{name}", FINAL)
    return processes_named(word), scene.server.log_of(name)


def processes_named(word):
    pids = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            pids += [process.pid] if process.cmdline()[:1] == [word] else []
    return pids


def outcomes_in(log, word):
    lines = [line.partition(" ")[2] for line in log.splitlines() if line.startswith(f"{word} ")]
    rows = map(json.loads, lines)
    return {row["attempt"]: (row["outcome"], row["detail"]) for row in rows}


def facts_of_job(scene, foreign):
    """What it knows of itself only when it runs."""
    folders = map(AttemptFolder, (scene.data / "jobs").glob("*/*"))
    own_folders = (attempt for attempt in folders if attempt.path != foreign["foreign_attempt"])
    (own,) = [attempt.holder().pid for attempt in own_folders if attempt.is_held()]
    return {"supervisor": process_facts(own)}


def process_of(word):
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            words = process.cmdline()
            if word in words and Path(words[0]).name.startswith("python"):
                return process.pid
    raise AssertionError(f"no process of {word}")


FACTS = "/gcs/alpha-bucket/facts.json"


def program(scene, *args):
    """A container that is Python with some words."""
    container = {"imageUri": scene.mode.image, "command": ["python"], "args": list(args)}
    return {"containerSpec": container}


def uploaded(scene):
    """The trainer as a script in a bucket."""
    upload(scene, "alpha-bucket", "hostile.py", HOSTILE.read_bytes())
    return program(scene, "/gcs/alpha-bucket/hostile.py", FACTS, *TRIED)


def packaged(scene, facts):
    """The trainer as a package that tries the same while it is built.

    What builds packages has the proxies of the server, whose password is no secret to it.
    """
    facts = {**facts, "proxy_password": PASSWORD[::-1]}
    files = {
        "setup.py": SETUP.encode(),
        "trapped/__init__.py": b"",
        "trapped/task.py": HOSTILE.read_bytes(),
        "trapped/facts.json": json.dumps(facts).encode(),
    }
    package = upload(scene, "alpha-bucket", "trapped-1.tar.gz", archive(files))
    spec = {
        "executorImageUri": scene.mode.image,
        "packageUris": [package],
        "pythonModule": "trapped.task",
        "args": [FACTS, *TRIED],
    }
    return {"pythonPackageSpec": spec}
