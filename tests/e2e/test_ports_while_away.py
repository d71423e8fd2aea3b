"""A job that waits for the server's ports gets none of them while the server is away.

Each round kills the server with SIGKILL while a job loops on ``bind``.  What begins meanwhile is
answered by the next server: an upload of a neighbour's job, a call with a token and a handshake of
gRPC.  ``TRAINSHED_CHAOS=full`` makes it twenty rounds.
"""

import json
import socket
import ssl
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from e2e.chaos import FULL
from e2e.support import NO_PUBLIC, custom_job, good, serving, submit, wait_until
from engines.isolating import isolation_of

ROUNDS = 20 if FULL else 3
BUCKET = "of-the-neighbour"
WAIT_S_MAX = 120

THIEF = """\
import itertools, os, socket, sys, time
gateway = int(os.environ["GCE_METADATA_HOST"].rpartition(":")[2])
ports = [gateway, PORTS]
kinds = [(), (socket.SO_REUSEADDR,), (socket.SO_REUSEADDR, socket.SO_REUSEPORT)]
print("waits for", *ports, flush=True)
for port, host, kind in itertools.cycle(itertools.product(ports, ("127.0.0.1", ""), kinds)):
    with socket.socket() as thief:
        for option in kind:
            thief.setsockopt(socket.SOL_SOCKET, option, 1)
        try:
            thief.bind((host, port))
            thief.listen(100)
        except OSError:
            time.sleep(0.0005)
            continue
        print("STOLEN", port, flush=True)
        client, _ = thief.accept()
        print("STOLEN", client.recv(1000), flush=True)
"""
NEIGHBOUR = """\
import itertools, json, os, time, urllib.request

def get(url, method="GET", data=None, **headers):
    request = urllib.request.Request(url, data, headers, method=method)
    with urllib.request.urlopen(request, timeout=120) as answer:
        return answer.read().decode()

metadata = f"http://{os.environ['GCE_METADATA_HOST']}/computeMetadata/v1"
account = f"{metadata}/instance/service-accounts/default/token"
flavor = {"Metadata-Flavor": "Google"}
for number in itertools.count(1):
    try:
        own = {"Authorization": "Bearer " + json.loads(get(account, **flavor))["access_token"]}
        get(f"https://storage.googleapis.com/BUCKET/{number}", "PUT", b"the neighbour's", **own)
        print("uploaded", number, flush=True)
    except OSError as error:  # under way when the server was killed
        print("cut off", number, type(error).__name__, flush=True)
    time.sleep(0.02)
""".replace("BUCKET", BUCKET)
CONFIG = f"""\
{NO_PUBLIC}
[isolation]
mode = "landlock"
allow_root_jobs = true

"""

pytestmark = pytest.mark.slow


@pytest.fixture
def server(tmp_path):
    isolation_of("landlock")
    with serving(tmp_path / "data", config=CONFIG) as server:
        good(server.call("POST", "/storage/v1/b?project=demo-proj", {"name": BUCKET}))
        yield server


def waiting_at(port):
    """The connections to a port of this machine that no process has accepted."""
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return [
        line
        for line in lines
        if line[1].endswith(f":{port:04X}") and (line[3], line[9]) == ("01", "0")
    ]


def hello_of_grpc(server, port):
    """The certificate's issuer after a handshake: only the server's own authority is trusted."""
    context = ssl.create_default_context(cafile=server.data_dir / "tls" / "ca.pem")
    context.set_alpn_protocols(["h2"])
    with (
        socket.create_connection(("127.0.0.1", port), timeout=WAIT_S_MAX) as plain,
        context.wrap_socket(plain, server_hostname="127.0.0.1") as secure,
    ):
        return secure.selected_alpn_protocol()


def count_of(server, name):
    """How many objects the neighbour has."""
    return len([line for line in server.log_of(name).splitlines() if line.startswith("uploaded")])


def ports_of(server):
    return [int(address.rpartition(":")[2]) for address in (server.url, server.grpc)]


def test_no_port_of_a_killed_server_goes_to_a_job_that_waits_for_it(server):
    api, grpc = ports_of(server)
    neighbour = submit(server, custom_job("neighbour", NEIGHBOUR))
    wait_until(lambda: count_of(server, neighbour), lambda: server.log_of(neighbour))
    thief = submit(server, custom_job("thief", THIEF.replace("PORTS", f"{api}, {grpc}")), "thieves")
    wait_until(lambda: "waits for" in server.log_of(thief), lambda: server.log_of(thief))
    gateway = json.loads((server.data_dir / "gateway.json").read_text())["port"]
    with ThreadPoolExecutor() as pool:
        for _ in range(ROUNDS):
            server.kill()
            called = pool.submit(server.call, "GET", "/v1/projects/demo-proj/jobs")
            greeted = pool.submit(hello_of_grpc, server, grpc)
            for port in (gateway, api, grpc):
                wait_until(lambda port=port: waiting_at(port), lambda port=port: f"none at {port}")
            server.start()
            assert ports_of(server) == [api, grpc]
            assert called.result(WAIT_S_MAX)[0] == 200
            assert greeted.result(WAIT_S_MAX) == "h2"
            before = count_of(server, neighbour)
            wait_until(
                lambda before=before: count_of(server, neighbour) > before,
                lambda: server.log_of(neighbour),
            )
            assert "STOLEN" not in server.log_of(thief)
    for name in (thief, neighbour):
        good(server.call("POST", f"/v1/{name}:cancel", {}))
        server.wait_for(f"/v1/{name}", {"JOB_STATE_CANCELLED"})
