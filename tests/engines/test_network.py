"""What programs reach that have a network of their own, and that nothing of it is left."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

from engines.attempts import KEY, OTHER, ended, lines, order, supervisor, texts, until
from engines.networks import MODES, launch_in_network
from engines.own_network import (
    NETNS_COOKIE,
    NetworkId,
    held_networks,
    networks_in_use,
    own_network,
)
from engines.support import FOREVER, wait_until
from trainshed.engines.isolation.mounts import RESOLVER
from trainshed.engines.network.leftovers import count_job_networks
from trainshed.engines.network.netlink import Netlink
from trainshed.engines.network.rule import CIDR
from trainshed.engines.network.way_out import PROGRAM
from trainshed.engines.processes import tree
from trainshed.model.attempt import Phase
from trainshed.model.launch_plan import Environment
from trainshed.model.network import NetworkLayout

#: An address of the machine that is not on its loopback, as other machines reach it.
MACHINE = "203.0.113.5"
METADATA = "169.254.169.254"
PORT = 7000

#: Says what becomes of connections; words: HOST PORT pairs.
TRIES = """
import json, socket
def outcome(family, place, device=""):
    with socket.socket(family) as client:
        client.settimeout(0.5)
        try:
            if device:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, device.encode())
            client.connect(place)
            return "connected"
        except OSError as error:
            return type(error).__name__
links = sorted({name for _, name in socket.if_nameindex()})
print("links", *links, flush=True)
def tell(found):
    print(json.dumps(found), flush=True)
"""

#: Says in which network it is.
TELLS_NETWORK = f"""
import os, socket
with socket.socket() as inside:
    cookie = inside.getsockopt(socket.SOL_SOCKET, {NETNS_COOKIE}, 8).hex()
print(os.readlink("/proc/self/ns/net"), cookie, flush=True)
"""

#: Listens on the same port in each job, on all addresses.
LISTENS = """
import socket, time
server = socket.create_server(("", 7000))
print("listens", flush=True)
"""

#: Asks the kernel to remove the route that keeps it from the metadata of the machine.
REMOVES_ROUTE = """
import os, socket, struct
def remove():
    body = struct.pack("=BBBBBBBBI", socket.AF_INET, 16, 0, 0, 254, 4, 0, 7, 0)
    body += struct.pack("=HH4s", 8, 1, socket.inet_aton("169.254.0.0"))
    asking = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
    asking.send(struct.pack("=IHHII", 16 + len(body), 25, 5, 1, 0) + body)
    return -struct.unpack_from("=i", asking.recv(4096), 16)[0]
print("remove", remove(), flush=True)
import ctypes
refused = ctypes.CDLL(None).unshare(0x10000000)
print("remove as root of a user namespace", remove(), flush=True)
"""


#: Answers every question for an IPv4 address; words: its own address, and the answer.
NAME_SERVER = """
import socket, struct, sys
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind((sys.argv[1], 53))
print("ready", flush=True)
while True:
    data, client = server.recvfrom(512)
    question = data[12 : data.index(b"\\0", 12) + 5]
    is_v4 = question[-4:-2] == b"\\0\\1"
    header = data[:2] + struct.pack(">HHHHH", 0x8180, 1, int(is_v4), 0, 0)
    record = struct.pack(">HHHIH", 0xC00C, 1, 1, 60, 4) + socket.inet_aton(sys.argv[2])
    server.sendto(header + question + (record if is_v4 else b""), client)
"""


#: A setup.py that leaves what it sees of networks in its package.
BUILDS = (
    TRIES
    + """
from setuptools import setup
found = {
    "loopback": outcome(socket.AF_INET, ("127.0.0.1", PORT)),
    "metadata": outcome(socket.AF_INET, ("169.254.169.254", 80)),
    "links": links,
    "resolver": open("/etc/resolv.conf").read(),
}
open("trainer/found.py", "w").write("FOUND = " + repr(found))
setup(name="trainer", version="0.1", packages=["trainer"])
"""
)


@pytest.fixture
def machine():
    """A network that stands for the machine's: an address, and a service of metadata."""
    with own_network():
        netlink = Netlink()
        for address in (MACHINE, METADATA, *name_servers()):
            if not address.startswith("127."):
                netlink.add_address("lo", address, 32)
        netlink.close()
        yield


def name_servers():
    return re.findall(r"(?m)^nameserver\s+([\d.]+)$", Path(RESOLVER).read_text())


@contextmanager
def listening(*places):
    servers = [socket.create_server(place) for place in places]
    try:
        yield [server.getsockname() for server in servers]
    finally:
        for server in servers:
            server.close()


def read_objects(root, key=KEY):
    """The JSON objects that programs have written."""
    return [json.loads(line.text) for line in lines(root, key) if line.text.startswith("{")]


@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize("mode", MODES)
def test_a_job_reaches_the_machine_as_others_do_and_nothing_on_its_loopback(mode, root, mark):
    with listening(("127.0.0.1", 0), (MACHINE, 0), (METADATA, 80)) as (own, public, _):
        code = TRIES + (
            "v4, v6, tap = socket.AF_INET, socket.AF_INET6, socket.if_nametoindex('tap0')\n"
            f"found = {{'loopback': outcome(v4, ('127.0.0.1', {own[1]})),\n"
            f" 'gateway': outcome(v4, ('198.18.0.2', {own[1]})),\n"
            f" 'machine': outcome(v4, ('{MACHINE}', {public[1]})),\n"
            f" 'metadata': outcome(v4, ('{METADATA}', 80)),\n"
            f" 'metadata by link': outcome(v4, ('{METADATA}', 80), 'tap0'),\n"
            " 'oracle': outcome(v4, ('192.0.0.192', 80)),\n"
            " 'azure': outcome(v4, ('168.63.129.16', 80)),\n"
            " 'alibaba': outcome(v4, ('100.100.100.200', 80)),\n"
            " 'fe80': outcome(v6, ('fe80::1', 80, 0, tap))}\n"
            "tell(found)"
        )
        end = ended(launch_in_network(root, mark, code, mode=mode))
    assert end.outcome.exit_code == 0, (end.outcome, texts(root))
    (outcomes,) = read_objects(root)
    assert outcomes.pop("machine") == "connected"
    assert "connected" not in outcomes.values(), outcomes


#: Sends a datagram and begins a connection by each link; words: addresses, one last datagram.
SENDS_BY_LINKS = """
import socket
def send(host, port, link=""):
    for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM):
        with socket.socket(socket.AF_INET, kind) as client:
            client.settimeout(0.3)
            try:
                if link:
                    client.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, link.encode())
                client.connect((host, port))
                client.send(b"from the job")
            except OSError:
                pass
"""


@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize("mode", MODES)
def test_no_packet_of_a_job_reaches_the_loopback_of_the_machine_by_a_link(mode, root, mark):
    """slirp4netns took packets for 127.0.0.1 and passed them on; no answer came back."""
    with (
        socket.create_server(("127.0.0.1", 0)) as stream,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as loopback,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as public,
    ):
        port = stream.getsockname()[1]
        loopback.bind(("127.0.0.1", port))
        public.bind((MACHINE, 0))
        code = SENDS_BY_LINKS + (
            "for _, link in socket.if_nameindex():\n"
            "    for host in ('127.0.0.1', '127.9.9.9', '0.0.0.0'):\n"
            f"        send(host, {port}, link)\n"
            f"send('{MACHINE}', {public.getsockname()[1]})"
        )
        end = ended(launch_in_network(root, mark, code, mode=mode))
        assert end.outcome.exit_code == 0, (end.outcome, texts(root))
        public.settimeout(10)
        assert public.recv(64) == b"from the job"  # packets before it have arrived as well
        for receiver in (loopback, stream):
            receiver.setblocking(False)
            with pytest.raises(BlockingIOError):
                receiver.recv(64) if receiver is loopback else receiver.accept()


@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize("mode", MODES)
def test_two_jobs_listen_on_one_port_and_do_not_reach_each_other(mode, root, mark):
    """They trained as one world, silently, where both had the network of the machine."""
    first = launch_in_network(root, mark, LISTENS + "time.sleep(600)", mode=mode)
    wait_until(lambda: "listens" in texts(root), "the first job listens")
    code = TRIES + (
        f"found = {{host: outcome(socket.AF_INET, (host, {PORT}))\n"
        f"  for host in ('127.0.0.1', '198.18.1.16', '198.18.0.2', '{MACHINE}')}}\n"
        "tell(found)\n" + LISTENS
    )
    second = launch_in_network(root, mark, code, mode=mode, key=OTHER)
    assert until(second, Phase.ENDED, key=OTHER).outcome.exit_code == 0, texts(root, key=OTHER)
    (outcomes,) = read_objects(root, OTHER)
    assert "connected" not in outcomes.values(), outcomes
    assert "listens" in texts(root, key=OTHER)
    first.stop(KEY, order(0.0))
    ended(first)


@pytest.mark.parametrize("layout", NetworkLayout)
@pytest.mark.parametrize("mode", MODES)
def test_replicas_of_a_job_reach_each_other_by_address_and_by_name(mode, layout, root, mark):
    """Each listens at its own address, on the same port; each connects to all, itself too."""
    code = TRIES + (
        "import time\n"
        "own = socket.gethostbyname('OWN')\n"
        "server = socket.create_server((own, 7000))\n"
        "for host in ('198.18.1.16', '198.18.1.17', 'replica-0', 'replica-1'):\n"
        "    while outcome(socket.AF_INET, (host, 7000)) != 'connected':\n"
        "        time.sleep(0.02)\n"
        "print('reached all from', own, flush=True)\n"
        "time.sleep(600)"
    )
    codes = [code.replace("OWN", f"replica-{index}") for index in range(2)]
    engine = launch_in_network(root, mark, *codes, mode=mode, layout=layout)
    for index, name in enumerate(("master-replica-0", "worker-replica-0")):
        words = f"reached all from 198.18.1.{16 + index}"
        wait_until(lambda name=name, words=words: words in texts(root, name), f"{name}: {words}")
    links = {texts(root, name)[0] for name in ("master-replica-0", "worker-replica-0")}
    assert links == {"links eth0 lo" if layout is NetworkLayout.REPLICA else "links lo tap0"}
    engine.stop(KEY, order(0.0))
    ended(engine)


@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize("layout", NetworkLayout)
def test_names_are_resolved_by_the_resolver_of_the_machine(layout, root, mark):
    servers = [address for address in name_servers() if not address.startswith("127.")]
    if not servers:
        pytest.skip(
            "the machine's name servers are on its loopback: name another in /etc/resolv.conf"
        )
    code = "import socket; print(socket.gethostbyname('data.example.com'))"
    with answering(servers[0], "192.0.2.77"):
        assert ended(launch_in_network(root, mark, code, layout=layout)).outcome.exit_code == 0
    assert "192.0.2.77" in texts(root)


@contextmanager
def answering(address, answer):
    """A name server that gives one address for every name."""
    argv = (sys.executable, "-c", NAME_SERVER, address, answer)
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as server:
        assert server.stdout.readline() == b"ready\n"
        yield
        server.kill()


@pytest.mark.parametrize("layout", NetworkLayout)
@pytest.mark.parametrize("mode", MODES)
def test_no_program_can_remove_what_keeps_it_from_the_metadata(mode, layout, root, mark):
    end = ended(launch_in_network(root, mark, REMOVES_ROUTE, mode=mode, layout=layout))
    assert end.outcome.exit_code == 0, texts(root)
    errors = [line.rpartition(" ")[2] for line in texts(root) if line.startswith("remove")]
    assert errors == ["1", "1"], "EPERM, whoever it claims to be"


@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize("layout", NetworkLayout)
def test_nothing_of_a_network_is_left_by_a_killed_supervisor(layout, root, mark):
    before = machine_network()
    code = f"{TELLS_NETWORK}import time; time.sleep(600)"
    engine = launch_in_network(root, mark, code, code, layout=layout)
    until(engine, Phase.READY)
    wait_until(lambda: texts(root), "the program tells its namespace")
    pid = supervisor(root)
    (way_out,) = [child for child in tree.children(pid) if command(child) == PROGRAM]
    spaces = {told_network(root)} | held_networks(pid)
    assert len(spaces) == (3 if layout is NetworkLayout.REPLICA else 1) + 1, "one is the machine's"
    spaces -= {space for space in spaces if space.name == machine_name()}
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not command(way_out), "slirp4netns ends")
    until(engine, Phase.LOST)
    wait_until(lambda: not networks_in_use(spaces), "nothing holds a namespace")
    assert machine_network() == before


@pytest.mark.parametrize("layout", NetworkLayout)
def test_nothing_of_a_network_is_left_at_the_end(layout, root, mark):
    ended(launch_in_network(root, mark, TELLS_NETWORK, TELLS_NETWORK, layout=layout))
    space = told_network(root)
    wait_until(lambda: not networks_in_use({space}), "nothing holds the namespace")


def machine_network():
    """Links, addresses and routes of the machine's own network."""
    tables = ("fib_trie", "route", "ipv6_route")
    texts = (Path("/proc/thread-self/net", name).read_text() for name in tables)
    return [socket.if_nameindex(), *texts]


def machine_name():
    return str(Path("/proc/thread-self/ns/net").readlink())


def told_network(root):
    name, cookie = texts(root)[0].split()
    return NetworkId(name, int.from_bytes(bytes.fromhex(cookie), "little"))


def command(pid):
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip() if tree.living([pid]) else ""
    except FileNotFoundError:
        return ""


@pytest.mark.usefixtures("machine")
def test_a_way_out_that_is_killed_is_told_and_started_again(root, mark):
    with listening((MACHINE, 0)) as ((_, port),):
        code = TRIES + (
            "import time\n"
            "def reach():\n"
            f"    while outcome(socket.AF_INET, ('{MACHINE}', {port})) != 'connected':\n"
            "        time.sleep(0.05)\n"
            "def link():\n"
            "    return [number for number, name in socket.if_nameindex() if name == 'tap0']\n"
            "reach()\n"
            "first = link()\n"
            "print('reached', flush=True)\n"
            "while link() == first:\n"  # it is gone, or another one by now
            "    time.sleep(0.01)\n"
            "print('cut', flush=True)\n"
            "reach()\n"
            "print('reached again', flush=True)"
        )
        engine = launch_in_network(root, mark, code)
        wait_until(lambda: "reached" in texts(root), "it reaches the machine")
        (way_out,) = [pid for pid in tree.children(supervisor(root)) if command(pid) == PROGRAM]
        os.kill(way_out, signal.SIGKILL)
        assert ended(engine).outcome.exit_code == 0
    assert "reached again" in texts(root)
    warnings = [line.text for line in lines(root) if line.severity == "WARNING"]
    assert len(warnings) == 1
    assert "slirp4netns was ended by signal 9" in warnings[0]


def test_doctor_counts_the_networks_of_jobs(root, mark):
    engine = launch_in_network(root, mark, FOREVER, FOREVER, layout=NetworkLayout.REPLICA)
    until(engine, Phase.READY)
    before = count_job_networks()
    assert before.ways_out >= 1
    assert before.namespaces >= 3
    assert (before.left_over, before.links) == ((), ())
    engine.stop(KEY, order(0.0))
    ended(engine)


def test_doctor_tells_of_a_way_out_that_has_no_supervisor():
    code = "import time; time.sleep(600)"
    argv = (PROGRAM, "-c", code, f"--cidr={CIDR}")
    with subprocess.Popen(argv, executable=sys.executable) as process:
        wait_until(lambda: process.pid in count_job_networks().left_over, "doctor sees it")
        process.kill()
    assert process.pid not in count_job_networks().left_over


@pytest.mark.parametrize("mode", MODES)
def test_packages_are_built_in_the_network_of_their_job(mode, root, mark, tmp_path, monkeypatch):
    monkeypatch.setenv("UV_OFFLINE", "1")
    source = tmp_path / "buckets/own/source"
    (source / "trainer").mkdir(parents=True)
    (source / "trainer/__init__.py").touch()
    with listening(("127.0.0.1", 0)) as ((_, port),):
        (source / "setup.py").write_text(BUILDS.replace("PORT", str(port)))
        environment = Environment(
            python=sys.executable, packages=(str(source),), buckets=str(tmp_path / "buckets")
        )
        code = "import json, trainer.found; print(json.dumps(trainer.found.FOUND))"
        engine = launch_in_network(root, mark, code, mode=mode, environment=environment)
        end = ended(engine)
    assert end.outcome.exit_code == 0, (end.outcome, texts(root, "service"))
    (report,) = read_objects(root)
    assert "connected" not in {report["loopback"], report["metadata"]}
    assert report["links"] == ["lo", "tap0"]
    assert "nameserver 198.18.0.3" in report["resolver"]
