"""Who may do what: tokens, roles, reviews, and what admission refuses or adds."""

import json
import ssl
import urllib.request

import pytest

from k8s.emulator.admission import Webhook
from k8s.emulator.api import ADMIN_TOKEN, make_tls, start_api, write_kubeconfig
from k8s.emulator.rbac import MASTERS, Access, read_certificate
from k8s.emulator.statuses import ApiError
from k8s.http_calls import DEADLINE_S, JOBSETS, Caller, make_jobset, make_pod
from trainshed.service.auth.certificates import ensure_tls

PODS = "/api/v1/namespaces/default/pods"
ROLE = {
    "kind": "Role",
    "metadata": {"name": "engine", "namespace": "default"},
    "rules": [
        {"apiGroups": ["jobset.x-k8s.io"], "resources": ["jobsets"], "verbs": ["get", "create"]},
        {"apiGroups": [""], "resources": ["pods", "pods/log"], "verbs": ["get", "list"]},
        {"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["a"], "verbs": ["get"]},
    ],
}
NODES = {
    "kind": "ClusterRole",
    "metadata": {"name": "nodes"},
    "rules": [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["*"]}],
}


@pytest.fixture
def api():
    with start_api() as running:
        yield running


@pytest.fixture
def engine(api):
    api.access.add_user("system:serviceaccount:default:engine", "engine-token")
    api.access.bind("system:serviceaccount:default:engine", ROLE)
    return Caller(api, "engine-token")


def test_a_role_allows_what_it_names_in_its_namespace(api, engine):
    api.create_namespace("other")
    assert engine.call("POST", JOBSETS.format("default"), make_jobset()).status == 201
    assert engine.call("GET", PODS).status == 200
    for method, path, verb, where in (
        ("GET", JOBSETS.format("default"), "list", 'in the namespace "default"'),
        ("GET", PODS.replace("default", "other"), "list", 'in the namespace "other"'),
        ("GET", "/api/v1/nodes", "list", "at the cluster scope"),
        ("DELETE", f"{PODS}/p", "delete", 'in the namespace "default"'),
    ):
        reply = engine.call(method, path)
        assert (reply.status, reply.body["reason"]) == (403, "Forbidden")
        assert (
            f'cannot {verb} resource "{path.split("/")[-1 - (verb == "delete")]}"'
            in (reply.body["message"])
        )
        assert reply.body["message"].endswith(where)


def test_resource_names_narrow_a_rule(engine):
    secrets = "/api/v1/namespaces/default/secrets"
    assert engine.call("GET", f"{secrets}/a").status == 404
    reply = engine.call("GET", f"{secrets}/b")
    assert reply.status == 403
    assert reply.body["message"].startswith('secrets "b" is forbidden: User "system:serviceaccount')


def test_a_cluster_role_holds_everywhere_or_in_one_namespace(api, engine):
    user = "system:serviceaccount:default:engine"
    api.access.bind(user, NODES, "default")
    assert engine.call("GET", "/api/v1/nodes").status == 403
    api.access.bind(user, NODES)
    assert engine.call("GET", "/api/v1/nodes").status == 200
    api.access.unbind(user)
    assert engine.call("GET", "/api/v1/nodes").status == 403


def test_tokens_that_none_has_and_no_token_are_told_apart(api, engine):
    assert Caller(api, "other").call("GET", PODS).status == 401
    api.access.revoke("engine-token")
    assert engine.call("GET", PODS).body["message"] == "Unauthorized"
    reply = Caller(api, "").call("GET", PODS)
    assert (reply.status, reply.body["details"]) == (403, {"kind": "pods"})
    assert 'User "system:anonymous"' in reply.body["message"]
    assert Caller(api, "").call("GET", "/version").status == 200


@pytest.mark.parametrize(
    ("attributes", "is_allowed"),
    [
        ({"verb": "create", "group": "jobset.x-k8s.io", "resource": "jobsets"}, True),
        ({"verb": "delete", "group": "jobset.x-k8s.io", "resource": "jobsets"}, False),
        ({"verb": "get", "resource": "pods", "subresource": "log"}, True),
    ],
)
def test_a_user_can_ask_what_it_may_do(engine, attributes, is_allowed):
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    spec = {"resourceAttributes": {"namespace": "default", **attributes}}
    reply = engine.call("POST", path, {"spec": spec})
    assert (reply.status, reply.body["status"]["allowed"]) == (201, is_allowed)


def test_the_audit_list_names_user_verb_path_and_code(api, engine):
    engine.call("GET", PODS, labelSelector="a=b")
    engine.call("DELETE", f"{PODS}/p")
    rows = [(row.user, row.verb, row.path, row.code) for row in api.server.audit]
    user = "system:serviceaccount:default:engine"
    assert rows == [(user, "list", PODS, 200), (user, "delete", f"{PODS}/p", 403)]
    assert api.server.list_audit("list", "pods")[0].query == {"labelSelector": "a=b"}


def test_a_webhook_of_a_test_changes_or_refuses(api):
    def judge(obj, _):
        obj["metadata"].setdefault("labels", {})["touched"] = "yes"
        return "no privileged pods here" if obj["metadata"]["name"] == "bad" else None

    api.admission.webhooks.append(Webhook("policy.example.com", judge, {"Pod"}))
    assert api.store.create(make_pod("good"))["metadata"]["labels"] == {"touched": "yes"}
    reply = Caller(api).call("POST", PODS, make_pod("bad"))
    assert (reply.status, reply.body["message"]) == (
        403,
        'admission webhook "policy.example.com" denied the request: no privileged pods here',
    )


def test_it_speaks_tls_with_a_certificate_of_the_tests(tmp_path):
    files = ensure_tls(tmp_path, ["127.0.0.1"])
    with start_api(tls=make_tls(files.certificate, files.key)) as api:
        headers = {"Authorization": f"Bearer {ADMIN_TOKEN}"}
        request = urllib.request.Request(f"{api.url}/api/v1/namespaces", headers=headers)
        context = ssl.create_default_context(cafile=str(files.ca))
        with urllib.request.urlopen(request, timeout=DEADLINE_S, context=context) as reply:
            names = [row["metadata"]["name"] for row in json.load(reply)["items"]]
    assert "default" in names


def test_a_client_certificate_names_its_user_and_groups():
    subject = ((("organizationName", MASTERS),), (("commonName", "admin"),))
    user = read_certificate({"subject": subject})
    assert (user.name, user.groups[0]) == ("admin", MASTERS)
    assert Access().authenticate(None, None, {"subject": subject}) == user


def test_a_kubeconfig_is_for_its_owner_alone_and_has_one_context(tmp_path):
    path = write_kubeconfig(tmp_path / "config", "http://127.0.0.1:1", namespace="jobs")
    assert path.stat().st_mode & 0o077 == 0
    config = json.loads(path.read_text("utf-8"))
    assert config["contexts"][0]["context"]["namespace"] == "jobs"
    assert config["users"][0]["user"] == {"token": ADMIN_TOKEN}


def create(api, kind, name, **members):
    version = {"PriorityClass": "scheduling.k8s.io/v1"}.get(kind, "v1")
    return api.store.create(
        {"apiVersion": version, "kind": kind, "metadata": {"name": name}, **members}
    )


def make_sized_pod(name, **resources):
    container = {"name": "main", "image": "i:1", "resources": resources}
    return make_pod(name, containers=[container])


def test_a_quota_counts_what_is_alive_and_wants_amounts(api):
    create(api, "ResourceQuota", "q", spec={"hard": {"requests.cpu": "1", "count/jobs.batch": "1"}})
    with pytest.raises(ApiError) as refusal:
        api.store.create(make_pod("plain"))
    assert refusal.value.message.endswith("failed quota: q: must specify requests.cpu for: main")
    api.store.create(make_sized_pod("a", requests={"cpu": "600m"}))
    with pytest.raises(ApiError) as refusal:
        api.store.create(make_sized_pod("b", requests={"cpu": "500m"}))
    assert refusal.value.message.endswith(
        "exceeded quota: q, requested: requests.cpu=500m, used: requests.cpu=600m, "
        "limited: requests.cpu=1"
    )

    def end(pod):
        pod["status"]["phase"] = "Succeeded"

    api.store.modify("Pod", "default", "a", end, subresource="status")
    api.store.create(make_sized_pod("b", requests={"cpu": "500m"}))


def test_a_limit_range_gives_defaults_and_bounds(api):
    limit = {"type": "Container", "default": {"memory": "1Gi"}, "max": {"memory": "2Gi"}}
    create(api, "LimitRange", "l", spec={"limits": [limit]})
    pod = api.store.create(make_pod("a"))
    resources = pod["spec"]["containers"][0]["resources"]
    assert resources == {"limits": {"memory": "1Gi"}, "requests": {"memory": "1Gi"}}
    with pytest.raises(ApiError) as refusal:
        api.store.create(make_sized_pod("b", limits={"memory": "3Gi"}))
    assert refusal.value.message == (
        'pods "b" is forbidden: maximum memory usage per Container is 2Gi, but limit is 3Gi'
    )


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"priorityClassName": "none"}, "no PriorityClass with name none was found"),
        ({"runtimeClassName": "none"}, 'pod rejected: RuntimeClass "none" not found'),
        ({"serviceAccountName": "none"}, "error looking up service account default/none"),
    ],
)
def test_a_pod_that_names_what_is_not_there_is_refused(api, spec, words):
    reply = Caller(api).call("POST", PODS, make_pod("p", **spec))
    assert reply.status == 403
    assert words in reply.body["message"]


def test_a_priority_class_gives_its_value(api):
    create(api, "PriorityClass", "high", value=1000)
    assert api.store.create(make_pod(priorityClassName="high"))["spec"]["priority"] == 1000
