"""The chart renders what a cluster accepts, and settings that the server reads."""

import base64
import json
import re
from dataclasses import fields

import pytest
import yaml

import trainshed
from deploy.helm_chart import (
    CHART,
    DATA_DIR,
    NAME,
    NAMESPACE,
    NOTES,
    find_object,
    list_objects,
    load_config,
    load_helm,
    read_config,
    render,
    why_no_helm,
)
from trainshed.config.load import _ROWS, _TABLES
from trainshed.engines.kubernetes import options
from trainshed.engines.kubernetes.permissions import compose_rules

pytestmark = pytest.mark.skipif(bool(why_no_helm()), reason=why_no_helm())

VERSIONS = [f"1.{minor}" for minor in range(30, 38)]
SECRETS = {
    "database": {"existingSecret": "db", "key": "dsn"},
    "adminToken": {"existingSecret": "first", "key": "admin.token"},
    "tls": {"existingSecret": "cert"},
    "registry": {"existingSecret": "pull", "caConfigMap": "authorities", "caKey": "ca.pem"},
}
EVERYTHING = {
    **SECRETS,
    "image": {"repository": "registry.example/trainshed", "digest": f"sha256:{'a' * 64}"},
    "imagePullSecrets": ["pull"],
    "engine": {
        "name": "gpus",
        "regions": ["us-central1"],
        "queue": {"vision": "team-vision", "*": "all"},
        "image_pull_secrets": ["pull"],
        "node_selector": {"pool": "gpus"},
        "tolerations": [{"key": "dedicated", "effect": "NoSchedule"}],
        "gpus": {"any": {"resource": "nvidia.com/gpu", "selector": {"kind": ["a", "b"]}}},
        "security": {"run_as_user": 1000, "drop_capabilities": ["ALL"]},
        "shm_bytes": 10_000_000_000,
        "grace_s": 2.5,
        "start_timeout_s": 600,
    },
    "config": {
        "server": {"body_bytes_max": 20_000_000_000},
        "image": [{"image": 'r.example/"quoted"/*', "environment": "container", "run": "r/x"}],
        "quota": [{"accelerator": "NVIDIA_L4", "limit": 8}],
        "limits": {"project_jobs_max": 1000},
        "hangs": {"after": "30m"},
    },
    "allowedHosts": ["trainer.example"],
    "data": {"existingClaim": "disk"},
    "shared": {"existingClaim": "nfs"},
    "service": {"type": "LoadBalancer", "annotations": {"a": "b"}},
    "serviceAccount": {"annotations": {"a": "b"}},
    "extraEnv": [{"name": "HTTPS_PROXY", "value": "http://proxy:3128"}],
    "podAnnotations": {"a": "b"},
    "podLabels": {"team": "ml"},
    "nodeSelector": {"pool": "servers"},
    "tolerations": [{"key": "servers", "operator": "Exists"}],
    "affinity": {"nodeAffinity": {}},
    "priorityClassName": "high",
}
ONE_NODE = {
    "data": {"storageClass": "local", "size": "5Gi"},
    "shared": {"storageClass": "local", "accessMode": "ReadWriteOnce", "size": "50Gi"},
    "service": {"type": "NodePort"},
}
VALUES = {
    "defaults": {},
    "a certificate": {"tls": {"existingSecret": "cert"}},
    "PostgreSQL": {"database": {"existingSecret": "db"}},
    "a queue of Kueue": {"engine": {"queue": "team-a"}},
    "no ClusterRole": {"rbac": {"nodes": False}},
    "no rights": {"rbac": {"create": False}, "serviceAccount": {"create": False, "name": "own"}},
    "one node": ONE_NODE,
    "everything": EVERYTHING,
}


@pytest.fixture(scope="module", params=VALUES, ids=lambda name: name.replace(" ", "-"))
def objects(request):
    return list_objects(VALUES[request.param])


@pytest.fixture(scope="module")
def defaults():
    return list_objects({})


@pytest.fixture(scope="module")
def everything():
    return list_objects(EVERYTHING)


def pod_of(objects):
    return find_object(objects, "StatefulSet")["spec"]["template"]


def containers_of(objects):
    spec = pod_of(objects)["spec"]
    return [*spec["initContainers"], *spec["containers"]]


# ---- what a cluster accepts ----


def test_every_object_is_valid_in_the_oldest_and_the_newest_kubernetes(objects):
    validator = pytest.importorskip(
        "kubernetes_validate", reason="kubernetes-validate is not installed; make test installs it"
    )
    for row in objects:
        for version in (VERSIONS[0], VERSIONS[-1]):
            validator.validate(row, version, strict=True)


@pytest.mark.parametrize("version", VERSIONS[1:-1])
def test_all_that_the_chart_can_make_is_valid_in_every_kubernetes(everything, defaults, version):
    validator = pytest.importorskip(
        "kubernetes_validate", reason="kubernetes-validate is not installed; make test installs it"
    )
    for row in (*everything, *defaults):
        validator.validate(row, version, strict=True)


def test_names_that_look_like_numbers_stay_texts():
    validator = pytest.importorskip(
        "kubernetes_validate", reason="kubernetes-validate is not installed; make test installs it"
    )
    values = {"fullnameOverride": "12", "nameOverride": "3", "imagePullSecrets": ["4"]}
    values |= {"data": {"existingClaim": "5"}, "database": {"existingSecret": "6", "key": "7"}}
    for row in list_objects(values, release="1", namespace="2"):
        validator.validate(row, VERSIONS[-1], strict=True)
        assert row["metadata"]["labels"]["app.kubernetes.io/instance"] == "1"


def test_helm_finds_nothing_to_complain_of():
    helm_python = load_helm()

    for name, values in VALUES.items():
        report = helm_python.lint(str(CHART), values, strict=True)
        texts = [row["error"] for row in report["messages"]]
        assert (texts, report["errors"]) == (["icon is recommended"], []), name


def test_objects_of_a_namespace_name_it_and_names_are_unique(objects):
    of_cluster = ("ClusterRole", "ClusterRoleBinding")
    for row in objects:
        expected = None if row["kind"] in of_cluster else NAMESPACE
        assert row["metadata"].get("namespace") == expected, row
        assert row["metadata"]["labels"]["app.kubernetes.io/instance"] == "ts"
    keys = [(row["kind"], row["metadata"]["name"]) for row in objects]
    assert len(set(keys)) == len(keys)


def test_service_and_statefulset_select_the_pod_and_no_label_that_changes(objects):
    labels = pod_of(objects)["metadata"]["labels"]
    selectors = [
        find_object(objects, "Service")["spec"]["selector"],
        find_object(objects, "StatefulSet")["spec"]["selector"]["matchLabels"],
    ]
    for selector in selectors:
        assert selector.items() <= labels.items()
        assert not {"helm.sh/chart", "app.kubernetes.io/version"} & set(selector)
    ports = {port["name"]: port["containerPort"] for port in containers_of(objects)[1]["ports"]}
    targets = [port["targetPort"] for port in find_object(objects, "Service")["spec"]["ports"]]
    assert ports == {"https": 8080, "grpc": 8081}
    assert set(targets) == set(ports)


def test_every_volume_is_mounted_and_every_mount_has_its_volume(objects):
    volumes = {row["name"] for row in pod_of(objects)["spec"]["volumes"]}
    mounts = {row["name"] for c in containers_of(objects) for row in c["volumeMounts"]}
    assert volumes == mounts


def test_what_the_chart_makes_is_what_its_pod_names(objects):
    made = {(row["kind"], row["metadata"]["name"]) for row in objects}
    given = json.dumps(VALUES)
    for volume in pod_of(objects)["spec"]["volumes"]:
        claim = volume.get("persistentVolumeClaim", {}).get("claimName")
        secret = volume.get("secret", {}).get("secretName")
        config = volume.get("configMap", {}).get("name")
        kinds = {"PersistentVolumeClaim": claim, "Secret": secret, "ConfigMap": config}
        for kind, name in kinds.items():
            assert name is None or (kind, name) in made or f'"{name}"' in given, (kind, name)


def test_the_pod_meets_the_restricted_pod_security_standard(objects):
    spec = pod_of(objects)["spec"]
    context = spec["securityContext"]
    assert (context["runAsNonRoot"], context["runAsUser"]) == (True, 10001)
    assert context["fsGroup"] == context["runAsGroup"] == 10001
    assert context["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in containers_of(objects):
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert container["resources"]["requests"]
    kinds = {kind for row in spec["volumes"] for kind in set(row) - {"name"}}
    assert kinds <= {"persistentVolumeClaim", "secret", "configMap", "emptyDir"}


def test_nothing_waits_at_an_uninstall_and_claims_with_data_stay(objects):
    for row in objects:
        annotations = row["metadata"].get("annotations") or {}
        assert "finalizers" not in row["metadata"]
        assert not [name for name in annotations if name.startswith("helm.sh/hook")]
        is_claim = row["kind"] == "PersistentVolumeClaim"
        assert (annotations.get("helm.sh/resource-policy") == "keep") is is_claim


def test_probes_ask_the_routes_that_the_server_has(defaults):
    server = containers_of(defaults)[1]
    paths = {
        name: (server[name]["httpGet"]["path"], server[name]["httpGet"]["scheme"])
        for name in ("livenessProbe", "readinessProbe", "startupProbe")
    }
    assert paths == {
        "livenessProbe": ("/healthz", "HTTPS"),
        "readinessProbe": ("/readyz", "HTTPS"),
        "startupProbe": ("/readyz", "HTTPS"),
    }


# ---- rights ----


def test_the_role_has_exactly_the_verbs_that_the_engine_uses(defaults):
    assert find_object(defaults, "Role")["rules"] == compose_rules()
    cluster_role = find_object(defaults, "ClusterRole", f"{NAMESPACE}-{NAME}-nodes")
    assert cluster_role["rules"] == compose_rules(is_of_cluster=True)


def test_bindings_bind_the_account_of_the_pod(defaults):
    account = pod_of(defaults)["spec"]["serviceAccountName"]
    assert find_object(defaults, "ServiceAccount", account)
    bindings = [row for row in defaults if row["kind"].endswith("RoleBinding")]
    assert len(bindings) == 2
    for binding in bindings:
        row = {"kind": "ServiceAccount", "name": account, "namespace": NAMESPACE}
        assert binding["subjects"] == [row]
        assert find_object(defaults, binding["roleRef"]["kind"], binding["roleRef"]["name"])


def test_no_account_but_the_servers_gets_a_token(defaults):
    assert not find_object(defaults, "ServiceAccount")["automountServiceAccountToken"]
    assert pod_of(defaults)["spec"]["automountServiceAccountToken"]


@pytest.mark.parametrize(
    ("rbac", "kinds"),
    [
        ({"nodes": False}, {"Role", "RoleBinding"}),
        ({"create": False}, set()),
        ({}, {"Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"}),
    ],
)
def test_rights_may_be_left_to_an_administrator(rbac, kinds):
    objects = list_objects({"rbac": rbac})
    assert {row["kind"] for row in objects if "Role" in row["kind"]} == kinds


# ---- config.toml ----


def test_the_server_reads_the_config_of_every_example(objects, tmp_path):
    settings = load_config(objects, tmp_path)
    (engine,) = settings.engines
    read = options.read(engine.options)
    pod = pod_of(objects)["spec"]
    claims = {row["name"]: row.get("persistentVolumeClaim") for row in pod["volumes"]}
    mounts = {row["mountPath"]: row for row in containers_of(objects)[1]["volumeMounts"]}
    assert (engine.kind, read.namespace) == ("kubernetes", NAMESPACE)
    assert (read.kubeconfig, read.context) == ("", "")
    assert read.probe_image == containers_of(objects)[1]["image"]
    assert read.claim == claims[mounts[read.spool]["name"]]["claimName"]
    assert DATA_DIR.startswith(tuple(set(mounts) - {read.spool}))
    assert (settings.port, settings.grpc_port) == (8080, 8081)
    assert settings.host == "0.0.0.0"  # noqa: S104 - all addresses of the pod
    assert f"{NAME}.{NAMESPACE}.svc" in settings.allowed_hosts


def test_values_of_every_type_arrive_as_they_were_written(everything, tmp_path):
    settings = load_config(everything, tmp_path)
    (engine,) = settings.engines
    read = options.read(engine.options)
    assert (engine.name, engine.regions) == ("gpus", ("us-central1",))
    assert (read.shm_bytes, read.grace_s, read.start_timeout_s) == (10_000_000_000, 2.5, 600.0)
    assert read.queue == {"vision": "team-vision", "*": "all"}
    assert read.gpus["any"].selector == {"kind": ("a", "b")}
    assert read.security.run_as_user == 1000
    assert settings.images[0].image == 'r.example/"quoted"/*'
    assert settings.quotas[0].limit == 8
    assert (settings.body_bytes_max, settings.hang_s) == (20_000_000_000, 1800.0)
    assert "trainer.example" in settings.allowed_hosts
    mounts = {row["mountPath"] for row in containers_of(everything)[1]["volumeMounts"]}
    files = (settings.tls_certificate, settings.tls_key, read.docker_config, read.ca_file)
    assert all(str(path).rpartition("/")[0] in mounts for path in files)


def test_no_secret_is_in_the_config(everything):
    text, tables = read_config(everything)
    assert "password" not in text.lower()
    assert "database" not in tables["server"]
    (variable,) = (
        row for row in containers_of(everything)[1]["env"] if row["name"] == "TRAINSHED_DATABASE"
    )
    assert variable["valueFrom"] == {"secretKeyRef": {"name": "db", "key": "dsn"}}


def test_a_change_of_the_config_starts_another_pod():
    checksums = [
        pod_of(list_objects(values))["metadata"]["annotations"]["checksum/config"]
        for values in ({}, {}, {"engine": {"queue": "b"}})
    ]
    assert checksums[0] == checksums[1] != checksums[2]


def test_a_null_in_the_config_is_refused_in_words():
    with pytest.raises(Exception, match=r"must not be null"):
        render({"config": {"limits": {"project_jobs_max": None}}})


# ---- the first token ----


def test_a_token_is_generated_that_the_server_would_make(defaults):
    secret = find_object(defaults, "Secret", f"{NAME}-admin-token")
    token = base64.b64decode(secret["data"]["token"]).decode()
    assert re.fullmatch(r"tsd_[A-Za-z0-9]{43}", token)


def test_a_given_token_is_not_generated(everything):
    assert not [row for row in everything if row["kind"] == "Secret"]
    (volume,) = (
        row for row in pod_of(everything)["spec"]["volumes"] if row["name"] == "admin-token"
    )
    assert volume["secret"]["secretName"] == "first"
    assert volume["secret"]["items"] == [{"key": "admin.token", "path": "token"}]


# ---- values ----


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"replicas": 2}, ["replicas", "not allowed"]),
        ({"image": {"name": "x"}}, ["image", "name"]),
        ({"engine": {"quueue": "x"}}, ["engine", "quueue"]),
        ({"engine": {"kubeconfig": "/k"}}, ["engine", "kubeconfig"]),
        ({"engine": {"policy": "emulate"}}, ["engine", "policy", "exact", "best-effort"]),
        ({"shared": {"accessMode": "ReadOnlyMany"}}, ["shared", "accessMode", "ReadWriteMany"]),
        ({"shared": {"size": "many"}}, ["shared", "size"]),
        ({"service": {"port": "8080"}}, ["service", "port", "integer"]),
        ({"service": {"port": 0}}, ["service", "port", "minimum"]),
        ({"config": {"buckets": {}}}, ["config", "buckets"]),
        ({"config": {"server": {"database": "postgresql://u:p@h/d"}}}, ["server", "database"]),
        ({"fullnameOverride": "Upper"}, ["fullnameOverride", "pattern"]),
        ({"extraEnv": [{"value": "x"}]}, ["extraEnv", "name"]),
        ({"image": {"digest": "latest"}}, ["image", "digest"]),
    ],
)
def test_unknown_and_wrong_values_are_refused_by_their_path(values, words):
    with pytest.raises(Exception) as refused:  # noqa: PT011  # errors of Helm, by their text
        render(values)
    for word in words:
        assert word in str(refused.value)


def test_the_schema_has_every_setting_that_the_chart_leaves_to_the_user():
    schema = json.loads((CHART / "values.schema.json").read_text())["properties"]
    own = {"spool", "claim", "namespace", "kubeconfig", "context"}
    own |= {"docker_config", "ca_file"}
    names = {setting.name for setting in fields(options.KubernetesOptions)} - own
    assert set(schema["engine"]["properties"]) == names | {"name", "regions", "labels"}
    tables = (set(_TABLES) | set(_ROWS)) - {"engine"}
    assert set(schema["config"]["properties"]) == tables


def test_the_values_file_has_every_value_of_the_schema():
    schema = json.loads((CHART / "values.schema.json").read_text())["properties"]
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    assert set(values) == set(schema) - {"global"}
    for name in ("image", "data", "shared", "database", "adminToken", "tls", "registry", "rbac"):
        assert set(values[name]) == set(schema[name]["properties"])


def test_the_chart_has_the_version_of_the_server():
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["version"] == chart["appVersion"] == trainshed.__version__


# ---- what a person reads ----


def test_the_notes_are_the_next_commands():
    notes = render({})[NOTES]
    for words in (
        f"kubectl -n {NAMESPACE} rollout status statefulset/{NAME}",
        f"exec {NAME}-0 -c server -- trainshed doctor --engine cluster",
        f"get secret {NAME}-admin-token -o 'jsonpath={{.data.token}}' | base64 -d",
        f"port-forward service/{NAME} 8080:8080 8081:8081",
        f"cat {DATA_DIR}/tls/ca-bundle.pem",
        "delete jobsets -l trainshed.dev/installation",
    ):
        assert words in notes
    assert r"{.data.admin\.token}" in render(EVERYTHING)[NOTES]
