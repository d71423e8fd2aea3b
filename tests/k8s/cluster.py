"""An emulated cluster in a process of its own, for programs that are no tests.

    python tests/k8s/cluster.py FOLDER live|paper

It writes FOLDER/kubeconfig and FOLDER/ca.pem, then FOLDER/ready.json with the path of the claim's
folder and the image of jobs, and ends at SIGTERM.  ``live``: pods are processes on four nodes.
``paper``: pods are objects alone, and SIGUSR1 makes the API forget the versions of all watches; the
seconds until all are watched again go into FOLDER/relisted.json.
"""

import contextlib
import json
import signal
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from e2e.support import IMAGE
from k8s.emulator.api import make_tls, write_kubeconfig
from k8s.emulator.faults import EXPIRED
from k8s.emulator.pods.runtime import explain_absence
from k8s.live_cluster import running_cluster
from k8s.paper_cluster import running_paper_cluster
from k8s.serving import SERVER_CLAIM, add_test_images
from trainshed.service.auth.certificates import ensure_tls

HOST = "127.0.0.1"
#: The lists that an engine needs.
WATCHED = ("/jobsets", "/pods", "/events")
NODES = 4
DEADLINE_S, POLL_S = 60.0, 0.01


@contextlib.contextmanager
def _live(folder, tls):
    if reason := explain_absence():
        sys.exit(reason)
    with running_cluster(folder, tls=tls) as cluster:
        for number in range(2, NODES + 1):
            cluster.add_node(f"node-{number}")
        spool = cluster.add_claim(SERVER_CLAIM)
        add_test_images(cluster)
        yield cluster.api, spool


@contextlib.contextmanager
def _paper(folder, tls):
    with running_paper_cluster(folder, tls=tls) as cluster:
        yield cluster.api, cluster.spool


CLUSTERS = {"live": _live, "paper": _paper}


def expire(api):
    """End all watches and refuse their versions; the seconds until all are watched again."""
    server = api.server
    began, before = time.monotonic(), len(server.audit)
    for path in WATCHED:
        api.faults.order(EXPIRED, verbs=("watch",), path=path)
    server.end_watches()
    while time.monotonic() - began < DEADLINE_S:
        rows = [row.path for row in server.audit[before:] if row.verb == "watch"]
        if all(sum(path.endswith(end) for path in rows) > 1 for end in WATCHED):
            break
        time.sleep(POLL_S)
    return time.monotonic() - began


def _write(path, document):
    draft = path.with_suffix(".new")
    draft.write_text(json.dumps(document))
    draft.rename(path)  # readers see all of it


def main():
    """Keep a cluster until SIGTERM or SIGINT."""
    folder, kind = Path(sys.argv[1]), sys.argv[2]
    signals = {signal.SIGTERM, signal.SIGINT, signal.SIGUSR1}
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    files = ensure_tls(folder, [HOST])
    with CLUSTERS[kind](folder, make_tls(files.certificate, files.key)) as (api, spool):
        write_kubeconfig(folder / "kubeconfig", api.url, ca_file=str(files.ca))
        ready = {"spool": str(spool), "claim": SERVER_CLAIM, "image": IMAGE}
        _write(folder / "ready.json", ready)
        while signal.sigwait(signals) == signal.SIGUSR1:
            _write(folder / "relisted.json", {"seconds": expire(api)})


if __name__ == "__main__":
    main()
