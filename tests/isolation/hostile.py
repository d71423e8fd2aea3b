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

A new attempt is a function with the decorator ``attempt``; it returns what it got, in a few words,
and raises OSError or Denied where it could not.  ``expected.py`` must then say what each mode does.
"""

import contextlib
import ctypes
import fcntl
import glob
import json
import mmap
import os
import resource
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

ATTEMPTS = {}
LIBC = ctypes.CDLL(None, use_errno=True)
SECRET = "the secret of beta"
FACTS_S_MAX = 120


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


def listed(path):
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
    found = function(*arguments)
    if found < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return found


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
def read_foreign_attempt(facts):
    return read(os.path.join(facts["foreign_attempt"], "plan.json"))


@attempt("files")
def read_foreign_work(facts):
    return read(os.path.join(facts["foreign_attempt"], "work", "secret"))


@attempt("files")
def read_foreign_environment(facts):
    return listed(facts["foreign_environment"])


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


# ---- other processes ----


def targets(function):
    """Make one attempt for each: the server, the supervisor, a replica of another project."""
    for name in ("server", "supervisor", "foreign_job"):

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
    return listed(f"/proc/{pid}/fd")


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
    return listed(f"/proc/{pid}/root/")


@targets
def enter_folder_of(pid, _process):
    return listed(f"/proc/{pid}/cwd/")


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


# ---- sockets and ports ----


def connected(kind, address):
    with socket.socket(kind, socket.SOCK_STREAM) as found:
        found.settimeout(10)
        found.connect(address)
    return f"connected to {address!r}"


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
    return connected(socket.AF_INET, ("127.0.0.1", facts["foreign_port"]))


@attempt("sockets")
def connect_to_port_of_server(facts):
    return connected(socket.AF_INET, ("127.0.0.1", facts["server_port"]))


@attempt("sockets")
def find_way_to_metadata(_facts):
    """Where clouds hand out credentials of the machine; a datagram socket asks for the route."""
    ways, fault = [], None
    for address in ("169.254.169.254", "192.0.0.192", "168.63.129.16", "100.100.100.200"):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
            try:
                asking.connect((address, 80))
                ways.append(address)
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


#: Spellings of the loopback and of the metadata server of clouds, and a line feed for a proxy.
OWN_HOSTS = (
    "localhost", "127.0.0.1", "127.1", "2130706433", "0x7f.1", "0.0.0.0", "[::1]",
    "[::ffff:127.0.0.1]", "[64:ff9b::7f00:1]", "169.254.169.254", "[::ffff:a9fe:a9fe]", "x\n",
)  # fmt: skip


@attempt("supervisor")
def tunnel_to_machine_by_gateway(facts):
    """The supervisor's group: what builds packages has no gateway."""
    place = os.environ.get("GCE_METADATA_HOST")
    if place is None:
        raise Denied("there is no gateway")
    host, _, port = place.partition(":")
    heads = []
    for own in OWN_HOSTS:
        with socket.create_connection((host, int(port)), timeout=30) as gateway:
            gateway.settimeout(30)
            gateway.sendall(f"CONNECT {own}:{facts['server_port']} HTTP/1.1\r\n\r\n".encode())
            heads.append(gateway.recv(1 << 12).split(b"\r\n")[0].decode())
    opened = [head for head in heads if " 200 " in head]
    if not opened:
        raise Denied("; ".join(sorted(set(heads)))[:200])
    return f"{len(opened)} tunnels"


# ---- its own environment ----


@attempt("environment")
def find_secrets_in_environment(facts):
    """Variables of the server that a job has no use for."""
    found = sorted(name for name in facts["secret_variables"] if name in os.environ)
    if not found:
        raise Denied("none of them is there")
    return ", ".join(found)


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
    found = [each for each in disks if os.path.exists(each)]
    if not found:
        raise Denied("no disk is there")
    return read(found[0], 512)


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
            found = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(start))()
            del start
        if found < 0:
            raise Denied(os.strerror(-found))
        return f"process {found}"

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
    made = 0
    for place, target in places.items():
        with contextlib.suppress(FileExistsError):
            os.symlink(target, place)
        made += os.path.islink(place)
    return f"{made} links"


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
    names = [name for name, (group, _) in ATTEMPTS.items() if not groups or group in groups]
    return [outcome_of(name, facts) for name in names]


def main():
    """Try, and report as it goes."""
    print("hostile trainer is up", flush=True)
    path, *groups = sys.argv[1:]
    facts = facts_of(path)
    facts["own_folder"] = os.path.join(own_attempt(), "work")
    os.chdir(facts["own_folder"])
    facts["own_environment"] = environment()
    for found in built():
        print("built " + json.dumps(found), flush=True)
    for found in outcomes(facts, groups):
        print("tried " + json.dumps(found), flush=True)
    print("hostile trainer is done", flush=True)


if __name__ == "__main__":
    main()
