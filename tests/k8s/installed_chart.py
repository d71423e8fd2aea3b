"""The chart, installed by Helm 4 on the emulated cluster; its server is a pod of the cluster.

The emulator has no controller of StatefulSets, no admission of service accounts and no init
containers: ``ServerPod`` does what these do.  What the server may do is what the installed roles
say, and it reaches the API as every pod does: by the variables and the files of its account.
"""

import base64
import os
import subprocess
import sys
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from deploy.helm_chart import CHART, NAME, NAMESPACE, RELEASE, load_helm
from k8s.emulator.api import ADMIN_TOKEN, make_tls, write_kubeconfig
from k8s.emulator.pods.images import ContainerImage
from k8s.emulator.pods.network import SERVER, find_tool
from k8s.emulator.server import ApiServer
from trainshed.engines.kubernetes.api.library import SERVICE_ACCOUNT
from trainshed.service.auth.certificates import ensure_tls

ROOT = Path(__file__).parents[2]
IMAGE = "registry.test/trainshed:1"
USER = 10001
TOKEN = "token-of-the-account"
POD = f"{NAME}-0"
#: What deploy/Dockerfile sets.
IMAGE_ENV = {
    "TRAINSHED_CACHE_DIR": "/var/cache/trainshed",
    "HOME": "/var/cache/trainshed",
    "USER": "trainshed",
}
_SYSTEM = ("/usr", "/bin", "/lib", "/lib64")


def make_server_image(folder):
    """An image with this machine's programs, the tests' Python and our code, for any user."""
    folder.mkdir()
    folder.chmod(0o755)
    own = (sys.prefix, sys.base_prefix, ROOT / "src", ROOT / "trainer")
    paths = dict.fromkeys(str(path) for path in (*_SYSTEM, *own) if Path(path).exists())
    binds = [(Path(path), path) for path in paths]
    program = str(Path(sys.executable).parent / "trainshed")
    env = {**IMAGE_ENV, "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin"}
    return ContainerImage(folder, entrypoint=[program], env=env, user=str(USER), binds=binds)


@contextmanager
def serving_with_tls(cluster, folder):
    """The cluster's API over TLS, for Helm and for pods; the CA's file, and both servers."""
    files = ensure_tls(folder, [SERVER])
    tls = make_tls(files.certificate, files.key)
    servers = [ApiServer(cluster.store, cluster.api.access, tls=tls) for _ in range(2)]
    servers[1].host = SERVER
    try:
        servers[0].start()
        cluster.runtime.call_in_network(servers[1].start)
        yield files.ca, *servers
    finally:
        for server in servers:
            server.stop()


@contextmanager
def helm(folder, url, ca):
    """Helm, as a cluster's administrator.  Releases are in its memory: it stores them in protobuf,
    which the emulator does not read."""
    helm_python = load_helm()

    kubeconfig = write_kubeconfig(folder / "helm-kubeconfig", url, ADMIN_TOKEN, ca_file=str(ca))
    with helm_python.Config(
        kubeconfig_path=kubeconfig, namespace=NAMESPACE, storage_driver="memory"
    ) as config:
        yield config


def install(config, values):
    return config.install(str(CHART), RELEASE, values)


class ServerPod:
    """The one pod of the StatefulSet."""

    def __init__(self, cluster, api, ca):
        self._cluster, self._store, self._api, self._ca = cluster, cluster.store, api, ca
        self._template = self._get("StatefulSet", NAME)["spec"]["template"]
        self.account = self._template["spec"]["serviceAccountName"]
        self.user = f"system:serviceaccount:{NAMESPACE}:{self.account}"
        self._get("ServiceAccount", self.account)

    def start(self):
        """Do what a cluster does from the StatefulSet to the running containers."""
        self._bind_claims()
        self._grant()
        self._give_token()
        self._run_init_containers()
        self._create(POD, self._template["spec"]["containers"])
        self._cluster.wait_for(lambda: self.phase() == "Running" and self._pid, "the server's pod")

    def stop(self):
        """Delete the pod, as the collector does once its StatefulSet is gone."""
        self._delete(POD)

    def execute(self, *words):
        """Run a command in the container, as ``kubectl exec``; its result, with text."""
        namespaces = ("--mount", "--uts", "--ipc", "--net", "--pid")
        enter = (find_tool("nsenter"), "--target", str(self._pid), *namespaces)
        as_user = ("--setuid", str(USER), "--setgid", str(USER), "--")
        return subprocess.run(
            [*enter, *as_user, *words],
            env=self._environ(),
            cwd="/",
            check=False,
            capture_output=True,
            text=True,
            timeout=100,
        )

    def phase(self, name=POD):
        return self._get("Pod", name).get("status", {}).get("phase")

    def log(self, pod=POD, container="server"):
        path = self._cluster.plane.find_log(self._get("Pod", pod), container)
        return path.read_text() if path else ""

    def claim_folder(self, claim):
        return self._cluster.folder / "claims" / NAMESPACE / claim

    @property
    def _pid(self):
        pids = self._cluster.runtime.list_pids(self._get("Pod", POD)["metadata"]["uid"])
        return pids.get("server")

    def _environ(self):
        data = Path(f"/proc/{self._pid}/environ").read_bytes()
        rows = (os.fsdecode(row).partition("=") for row in data.split(b"\0") if row)
        return {name: value for name, _, value in rows}

    def _bind_claims(self):
        """What a provisioner does: a folder of the pod's fsGroup behind each claim."""
        for claim in self._store.list("PersistentVolumeClaim", NAMESPACE)[0]:
            folder = self.claim_folder(claim["metadata"]["name"])
            folder.mkdir(parents=True)
            os.chown(folder, 0, USER)
            folder.chmod(0o2775)
            self._cluster.claims.add(NAMESPACE, claim["metadata"]["name"], folder)
            self._store.update({**claim, "status": {"phase": "Bound"}}, subresource="status")

    def _grant(self):
        """Give the account the rules of the roles that its bindings name, and no others."""
        access = self._cluster.api.access
        access.add_user(self.user, TOKEN)
        for kind, namespace in (("Role", NAMESPACE), ("ClusterRole", None)):
            for binding in self._store.list(f"{kind}Binding", namespace)[0]:
                assert [row["name"] for row in binding["subjects"]] == [self.account]
                name = binding["roleRef"]["name"]
                access.bind(self.user, self._store.get(kind, namespace, name))

    def _give_token(self):
        texts = {"token": TOKEN, "ca.crt": self._ca.read_text(), "namespace": NAMESPACE}
        data = {name: base64.b64encode(text.encode()).decode() for name, text in texts.items()}
        meta = {"name": self.account, "namespace": NAMESPACE}
        self._store.create({"apiVersion": "v1", "kind": "Secret", "metadata": meta, "data": data})

    def _run_init_containers(self):
        for container in self._template["spec"]["initContainers"]:
            name = f"{POD}-{container['name']}"
            self._create(name, [container])
            self._cluster.wait_for(partial(self._has_ended, name), f"{name} to end")
            assert self.phase(name) == "Succeeded", self.log(name, container["name"])
            self._delete(name)

    def _delete(self, name):
        self._store.delete("Pod", NAMESPACE, name)
        self._cluster.wait_for(lambda: not self._exists(name), f"{name} to go")

    def _create(self, name, containers):
        spec = {key: row for key, row in self._template["spec"].items() if key != "initContainers"}
        account = {"name": "account", "secret": {"secretName": self.account}}
        spec["volumes"] = [*spec["volumes"], account]
        spec["containers"] = [self._complete(container) for container in containers]
        spec["restartPolicy"] = "Never"
        meta = {**self._template["metadata"], "name": name, "namespace": NAMESPACE}
        self._store.create({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})

    def _complete(self, container):
        """A container with its account, and with the address of the API."""
        mount = {"name": "account", "mountPath": SERVICE_ACCOUNT, "readOnly": True}
        variables = {
            "KUBERNETES_SERVICE_HOST": SERVER,
            "KUBERNETES_SERVICE_PORT": str(self._api.port),
        }
        rows = [{"name": name, "value": text} for name, text in variables.items()]
        return {
            **container,
            "env": [*rows, *container.get("env", ())],
            "volumeMounts": [*container["volumeMounts"], mount],
        }

    def _get(self, kind, name):
        return self._store.get(kind, NAMESPACE, name)

    def _has_ended(self, name):
        return self.phase(name) in ("Succeeded", "Failed")

    def _exists(self, name):
        return name in [row["metadata"]["name"] for row in self._store.list("Pod", NAMESPACE)[0]]
