"""Objects over HTTP: versions, conflicts, pages, selectors, watches and patches."""

import itertools
import json

import pytest

from k8s.emulator.api import start_api
from k8s.emulator.kinds import RESOURCES
from k8s.http_calls import JOBSETS, Caller, make_job, make_jobset, make_pod

PODS = "/api/v1/namespaces/default/pods"
SECRETS = "/api/v1/namespaces/default/secrets"
MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"


@pytest.fixture
def api():
    with start_api() as running:
        yield running


@pytest.fixture
def caller(api):
    return Caller(api)


def make_secret(name, **labels):
    metadata = {"name": name, "labels": labels}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {"k": "v"}}


def create_secrets(caller, count):
    for index in range(count):
        row = make_secret(
            f"s-{index}", index=str(index), parity="even" if index % 2 == 0 else "odd"
        )
        assert caller.call("POST", SECRETS, row).status == 201


def list_names(caller, path, **query):
    return [row["metadata"]["name"] for row in caller.call("GET", path, **query).body["items"]]


def test_a_write_gives_an_object_its_metadata_and_a_higher_version(caller):
    first = caller.call("POST", SECRETS, make_secret("a")).body
    second = caller.call("POST", SECRETS, make_secret("b")).body
    metadata = first["metadata"]
    assert metadata["namespace"] == "default"
    assert len(metadata["uid"]) == 36
    assert metadata["creationTimestamp"].endswith("Z")
    assert int(second["metadata"]["resourceVersion"]) > int(metadata["resourceVersion"])
    assert first["data"] == {"k": "dg=="}
    assert first["type"] == "Opaque"


def test_generated_names_differ_and_have_the_prefix(caller):
    row = make_secret("")
    row["metadata"] = {"generateName": "made-"}
    names = {caller.call("POST", SECRETS, row).body["metadata"]["name"] for _ in range(3)}
    assert len(names) == 3
    assert all(name.startswith("made-") and len(name) == 10 for name in names)


def test_only_an_update_of_the_spec_raises_the_generation(caller):
    path = f"{JOBSETS.format('default')}/js"
    assert caller.call("POST", JOBSETS.format("default"), make_jobset()).status == 201
    patches = (
        ({"metadata": {"labels": {"a": "b"}}}, path, 1),
        ({"spec": {"suspend": True}}, path, 2),
        ({"status": {"restarts": 1}}, f"{path}/status", 2),
        ({"status": {"restarts": 9}}, path, 2),
    )
    for patch, url, generation in patches:
        reply = caller.call("PATCH", url, patch, content_type=MERGE)
        assert reply.status == 200, reply.text
        assert reply.body["metadata"]["generation"] == generation
    assert reply.body["status"]["restarts"] == 1


def test_an_update_that_changes_nothing_is_no_write(caller):
    before = caller.call("POST", SECRETS, make_secret("a")).body
    after = caller.call("PUT", f"{SECRETS}/a", before).body
    assert after == before


def test_a_stale_update_is_refused_and_leaves_the_object(caller):
    stale = caller.call("POST", SECRETS, make_secret("a")).body
    caller.call("PATCH", f"{SECRETS}/a", {"metadata": {"labels": {"x": "y"}}}, content_type=MERGE)
    stale["metadata"]["labels"] = {"x": "lost"}
    reply = caller.call("PUT", f"{SECRETS}/a", stale)
    assert (reply.status, reply.body["reason"]) == (409, "Conflict")
    assert caller.call("GET", f"{SECRETS}/a").body["metadata"]["labels"] == {"x": "y"}


def test_a_dry_run_stores_nothing(caller, api):
    version = api.store.resource_version
    assert caller.call("POST", SECRETS, make_secret("a"), dryRun="All").status == 201
    assert caller.call("GET", f"{SECRETS}/a").status == 404
    caller.call("POST", SECRETS, make_secret("b"))
    assert caller.call("DELETE", f"{SECRETS}/b", dryRun="All").status == 200
    assert caller.call("GET", f"{SECRETS}/b").status == 200
    assert api.store.resource_version == version + 1


def test_unknown_fields_are_dropped_with_a_warning_or_refused(caller):
    path = JOBSETS.format("default")
    body = make_jobset(bogus=1)
    reply = caller.call("POST", path, body)
    assert reply.status == 201
    assert "bogus" not in reply.body["spec"]
    assert reply.headers["warning"] == '299 - "unknown field \\"spec.bogus\\""'
    body["metadata"]["name"] = "other"
    reply = caller.call("POST", path, body, fieldValidation="Strict")
    assert (reply.status, reply.body["reason"]) == (400, "BadRequest")
    assert caller.call("GET", f"{path}/other").status == 404


def test_items_of_core_lists_have_no_kind_and_those_of_custom_lists_have(caller):
    caller.call("POST", SECRETS, make_secret("a"))
    caller.call("POST", JOBSETS.format("default"), make_jobset())
    secrets = caller.call("GET", SECRETS).body
    jobsets = caller.call("GET", JOBSETS.format("default")).body
    assert secrets["kind"] == "SecretList"
    assert "kind" not in secrets["items"][0]
    assert jobsets["items"][0]["kind"] == "JobSet"


def test_pages_show_the_list_as_it_was_at_the_first_page(caller):
    create_secrets(caller, 5)
    first = caller.call("GET", SECRETS, limit="2").body
    assert first["metadata"]["remainingItemCount"] == 3
    caller.call("DELETE", f"{SECRETS}/s-4")
    names = [row["metadata"]["name"] for row in first["items"]]
    token = first["metadata"]["continue"]
    while token:
        page = caller.call("GET", SECRETS, **{"limit": "2", "continue": token}).body
        assert page["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
        names += [row["metadata"]["name"] for row in page["items"]]
        token = page["metadata"].get("continue")
    assert names == [f"s-{index}" for index in range(5)]


def test_a_page_of_a_forgotten_list_is_expired(caller, api):
    create_secrets(caller, 3)
    token = caller.call("GET", SECRETS, limit="1").body["metadata"]["continue"]
    api.server.expire_watches()
    reply = caller.call("GET", SECRETS, **{"limit": "1", "continue": token})
    assert (reply.status, reply.body["reason"]) == (410, "Expired")


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        ("parity=even", ["s-0", "s-2"]),
        ("parity!=even", ["s-1", "s-3", "x"]),
        ("index in (1,2)", ["s-1", "s-2"]),
        ("index notin (1,2)", ["s-0", "s-3", "x"]),
        ("parity", ["s-0", "s-1", "s-2", "s-3"]),
        ("!parity", ["x"]),
        ("parity=odd,index!=1", ["s-3"]),
    ],
)
def test_label_selectors_choose(caller, selector, names):
    create_secrets(caller, 4)
    caller.call("POST", SECRETS, make_secret("x"))
    assert list_names(caller, SECRETS, labelSelector=selector) == names


def test_field_selectors_choose_and_unknown_fields_are_refused(caller, api):
    for name in ("a", "b"):
        api.store.create(make_pod(name))
    api.store.modify("Pod", "default", "a", bind_to("n1"), subresource="binding")
    assert list_names(caller, PODS, fieldSelector="metadata.name=b") == ["b"]
    assert list_names(caller, PODS, fieldSelector="spec.nodeName=n1") == ["a"]
    assert list_names(caller, PODS, fieldSelector="spec.nodeName=,status.phase=Pending") == ["b"]
    assert list_names(caller, PODS, fieldSelector="status.phase!=Pending") == []
    reply = caller.call("GET", PODS, fieldSelector="spec.hostname=x")
    assert (reply.status, reply.body["message"]) == (
        400,
        "field label not supported: spec.hostname",
    )


def bind_to(node):
    def change(pod):
        pod["spec"]["nodeName"] = node

    return change


def read_types(events, count):
    return [(e["type"], e["object"]["metadata"]["name"]) for e in itertools.islice(events, count)]


def test_a_watch_brings_what_is_there_and_what_follows(caller):
    caller.call("POST", SECRETS, make_secret("a"))
    events = caller.watch(SECRETS)
    assert read_types(events, 1) == [("ADDED", "a")]
    caller.call("POST", SECRETS, make_secret("b"))
    caller.call("PATCH", f"{SECRETS}/a", {"metadata": {"labels": {"x": "y"}}}, content_type=MERGE)
    caller.call("DELETE", f"{SECRETS}/b")
    assert read_types(events, 3) == [("ADDED", "b"), ("MODIFIED", "a"), ("DELETED", "b")]
    events.close()


def test_a_watch_goes_on_from_the_version_of_a_list(caller):
    caller.call("POST", SECRETS, make_secret("a"))
    version = caller.call("GET", SECRETS).body["metadata"]["resourceVersion"]
    caller.call("POST", SECRETS, make_secret("b"))
    events = caller.watch(SECRETS, resourceVersion=version)
    assert read_types(events, 1) == [("ADDED", "b")]
    events.close()


def test_objects_that_enter_and_leave_a_selector_come_and_go_in_its_watch(caller):
    caller.call("POST", SECRETS, make_secret("a", x="no"))
    version = caller.call("GET", SECRETS).body["metadata"]["resourceVersion"]
    for value in ("yes", "no", "yes"):
        patch = {"metadata": {"labels": {"x": value}}}
        caller.call("PATCH", f"{SECRETS}/a", patch, content_type=MERGE)
    caller.call("DELETE", f"{SECRETS}/a")
    events = caller.watch(SECRETS, labelSelector="x=yes", resourceVersion=version)
    kinds = [kind for kind, _ in read_types(events, 4)]
    assert kinds == ["ADDED", "DELETED", "ADDED", "DELETED"]
    events.close()


def test_bookmarks_come_only_where_a_watch_wants_them():
    with start_api(bookmark_s=0.05) as api:
        caller = Caller(api)
        caller.call("POST", SECRETS, make_secret("a"))
        version = str(api.store.resource_version)
        options = {"resourceVersion": version, "timeoutSeconds": "1"}
        assert list(caller.watch(SECRETS, **options)) == []
        bookmarks = list(caller.watch(SECRETS, allowWatchBookmarks="true", **options))
    assert bookmarks
    assert {event["type"] for event in bookmarks} == {"BOOKMARK"}
    assert bookmarks[0]["object"] == {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"resourceVersion": version},
    }


def test_a_watch_can_bring_the_list_itself_with_a_bookmark_at_its_end(caller):
    caller.call("POST", SECRETS, make_secret("a"))
    options = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
    events = caller.watch(SECRETS, allowWatchBookmarks="true", **options)
    added, bookmark = itertools.islice(events, 2)
    events.close()
    assert added["type"] == "ADDED"
    assert bookmark["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


def test_a_watch_that_is_behind_the_history_gets_410(caller):
    with start_api(history_limit=2) as api:
        caller = Caller(api)
        version = str(api.store.resource_version)
        create_secrets(caller, 4)
        (event,) = caller.watch(SECRETS, resourceVersion=version)
    assert (event["type"], event["object"]["code"]) == ("ERROR", 410)
    assert event["object"]["reason"] == "Expired"


@pytest.mark.parametrize(
    ("content_type", "patch", "expected"),
    [
        (MERGE, {"metadata": {"labels": {"a": None, "b": "2"}}}, {"b": "2"}),
        (JSON_PATCH, [{"op": "replace", "path": "/metadata/labels/a", "value": "9"}], {"a": "9"}),
        (JSON_PATCH, [{"op": "remove", "path": "/metadata/labels"}], None),
        (STRATEGIC, {"metadata": {"labels": {"b": "2"}}}, {"a": "1", "b": "2"}),
    ],
)
def test_patches_change_labels(caller, content_type, patch, expected):
    caller.call("POST", SECRETS, make_secret("a", a="1"))
    reply = caller.call("PATCH", f"{SECRETS}/a", patch, content_type=content_type)
    assert reply.status == 200, reply.text
    assert reply.body["metadata"].get("labels") == expected


def test_a_strategic_patch_merges_items_by_their_names(caller, api):
    containers = [{"name": name, "image": "i:1"} for name in ("main", "launcher")]
    api.store.create(make_pod("p", containers=containers))
    patch = {"spec": {"containers": [{"name": "launcher", "image": "i:2"}]}}
    body = caller.call("PATCH", f"{PODS}/p", patch, content_type=STRATEGIC).body
    images = {row["name"]: row["image"] for row in body["spec"]["containers"]}
    assert images == {"main": "i:1", "launcher": "i:2"}


def test_a_json_patch_whose_test_fails_changes_nothing(caller):
    caller.call("POST", SECRETS, make_secret("a", a="1"))
    patch = [
        {"op": "test", "path": "/metadata/labels/a", "value": "other"},
        {"op": "remove", "path": "/metadata/labels/a"},
    ]
    assert caller.call("PATCH", f"{SECRETS}/a", patch, content_type=JSON_PATCH).status == 422
    assert caller.call("GET", f"{SECRETS}/a").body["metadata"]["labels"] == {"a": "1"}


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"completionMode": "Indexed"}, "spec.completionMode"),
        ({"completions": 3}, "spec.completions"),
        ({"template": {"spec": {"restartPolicy": "OnFailure"}}}, "spec.template"),
    ],
)
def test_fixed_fields_of_a_job_are_refused(caller, change, field):
    path = "/apis/batch/v1/namespaces/default/jobs"
    assert caller.call("POST", path, make_job()).status == 201
    reply = caller.call("PATCH", f"{path}/j", {"spec": change}, content_type=MERGE)
    assert (reply.status, reply.body["reason"]) == (422, "Invalid")
    assert [row["field"] for row in reply.body["details"]["causes"]] == [field]


def test_a_suspended_job_may_get_a_node_selector(caller):
    path = "/apis/batch/v1/namespaces/default/jobs"
    caller.call("POST", path, make_job(suspend=True))
    patch = {"spec": {"template": {"spec": {"nodeSelector": {"gpu": "yes"}}}}}
    assert caller.call("PATCH", f"{path}/j", patch, content_type=MERGE).status == 200


def test_only_the_node_of_a_pod_is_set_later(caller, api):
    api.store.create(make_pod("p"))
    api.store.modify("Pod", "default", "p", bind_to("n1"), subresource="binding")
    reply = caller.call("PATCH", f"{PODS}/p", {"spec": {"hostname": "x"}}, content_type=MERGE)
    assert reply.status == 422
    assert "pod updates may not change fields other than" in reply.body["message"]


def test_both_versions_of_kueue_serve_one_object(caller):
    paths = [
        f"/apis/kueue.x-k8s.io/{v}/namespaces/default/localqueues" for v in ("v1beta1", "v1beta2")
    ]
    queue = {"metadata": {"name": "q"}, "spec": {"clusterQueue": "c"}}
    created = caller.call("POST", paths[0], queue).body
    read = caller.call("GET", f"{paths[1]}/q").body
    assert created["apiVersion"] == "kueue.x-k8s.io/v1beta1"
    assert read["apiVersion"] == "kueue.x-k8s.io/v1beta2"
    assert read["metadata"] == created["metadata"]
    (item,) = caller.call("GET", paths[0]).body["items"]
    assert item["apiVersion"] == "kueue.x-k8s.io/v1beta1"


def test_discovery_names_every_kind_and_its_scope(caller):
    assert caller.call("GET", "/version").body["gitVersion"].startswith("v1.36")
    groups = caller.call("GET", "/apis").body["groups"]
    versions = {row["groupVersion"] for group in groups for row in group["versions"]}
    for resource in RESOURCES:
        if resource.group:
            assert resource.api_version in versions
        prefix = "/apis" if resource.group else "/api"
        rows = caller.call("GET", f"{prefix}/{resource.api_version}").body["resources"]
        (row,) = [row for row in rows if row["name"] == resource.plural]
        assert (row["kind"], row["namespaced"]) == (resource.kind, resource.is_namespaced)
    assert caller.call("GET", "/readyz").text == "ok"


def test_a_group_that_is_not_installed_is_a_404_without_a_status(caller, api):
    api.server.discovery.hidden.add("jobset.x-k8s.io")
    reply = caller.call("GET", JOBSETS.format("default"))
    assert (reply.status, reply.text) == (404, "404 page not found\n")
    groups = caller.call("GET", "/apis").body["groups"]
    assert "jobset.x-k8s.io" not in {group["name"] for group in groups}


def test_tables_have_the_columns_that_kubectl_prints(caller, api):
    api.store.create(make_pod("p"))
    accept = "application/json;as=Table;v=v1;g=meta.k8s.io"
    table = caller.call("GET", PODS, accept=accept).body
    assert table["kind"] == "Table"
    names = [column["name"] for column in table["columnDefinitions"]]
    assert names[:5] == ["Name", "Ready", "Status", "Restarts", "Age"]
    assert table["rows"][0]["cells"][:4] == ["p", "0/1", "Pending", "0"]
    caller.call("POST", JOBSETS.format("default"), make_jobset(suspend=True))
    table = caller.call("GET", JOBSETS.format("default"), accept=accept).body
    columns = [column["name"] for column in table["columnDefinitions"]]
    cells = dict(zip(columns, table["rows"][0]["cells"], strict=True))
    assert (cells["Name"], cells["Suspended"]) == ("js", "true")


def test_subscribers_get_writes_in_order_after_they_are_stored(api):
    events = []

    def note(happened, obj):
        stored = api.store.get("Secret", "default", "a") if happened != "DELETED" else None
        events.append((happened, stored is None or stored["metadata"] == obj["metadata"]))

    api.store.subscribe(note)
    api.store.create(make_secret("a"))
    api.store.modify("Secret", "default", "a", lambda row: row.update(data={"k": "eA=="}))
    api.store.delete("Secret", "default", "a")
    assert events == [("ADDED", True), ("MODIFIED", True), ("DELETED", True)]


def test_a_subscriber_that_writes_gets_its_own_events_too(api):
    names = []

    def copy(_, obj):
        names.append(obj["metadata"]["name"])
        if obj["metadata"]["name"] == "a":
            api.store.create(make_secret("b"))

    api.store.subscribe(copy)
    api.store.create(make_secret("a"))
    assert names == ["a", "b"]


def test_answers_are_copies(api):
    obj = api.store.create(make_secret("a"))
    obj["data"]["k"] = "changed"
    assert api.store.get("Secret", "default", "a")["data"] == {"k": "dg=="}
    assert json.loads(json.dumps(obj))["data"] == {"k": "changed"}
