"""Run the emulated cluster until the end of this process: ``python -m k8s.demo_cluster FOLDER``.

``FOLDER/kubeconfig`` appears when it is ready.  Each image is this machine with its own Python;
pulls of images other than IMAGES_OF_DEMO fail.
"""

import signal
import sys
from pathlib import Path

from k8s.emulator.api import make_tls, write_kubeconfig
from k8s.emulator.pods.runtime import explain_absence
from k8s.live_cluster import running_cluster
from k8s.serving import SERVER_CLAIM, add_test_images
from trainshed.service.auth.certificates import ensure_tls

#: The images of the example and of docs/how-to/kubernetes.md.
IMAGES_OF_DEMO = (
    "docker.io/library/python:3.12-slim",
    "python:3.12-slim",
    "registry.k8s.io/pause:3.10",
)


def main():
    if reason := explain_absence():
        sys.exit(f"the emulated cluster cannot run on this machine: {reason}")
    folder = Path(sys.argv[1])
    folder.mkdir(mode=0o700)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    tls = ensure_tls(folder, ["127.0.0.1"])
    with running_cluster(folder, tls=make_tls(tls.certificate, tls.key)) as cluster:
        for number in range(2, 5):
            cluster.add_node(f"node-{number}")
        cluster.add_claim(SERVER_CLAIM)
        add_test_images(cluster, *IMAGES_OF_DEMO)
        draft = write_kubeconfig(folder / "draft", cluster.api.url, ca_file=str(tls.ca))
        draft.rename(folder / "kubeconfig")
        signal.pause()


if __name__ == "__main__":
    main()
