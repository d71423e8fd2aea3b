"""The native routes and the buckets of a project are invisible to others, too."""

import json
import os

import pytest

from e2e.every_route import NATIVE, filled, storage_paths
from e2e.support import ml_job
from e2e.world import FOREIGN, NEVER, OWN, body_of, check_strangers, ghost_of, mask_names

pytestmark = pytest.mark.slow

OF_PROJECTS = [(verb, path) for verb, path in NATIVE if "{project}" in path]
#: Routes of the caller itself, and of all that it may see.
OF_CALLERS = (
    "nodes",
    "alerts",
    "projects",
    "usage",
    "stream",
    "signin",
    "signin:code",
    "downloads",
    "openapi.json",
)
FOR_ALL = tuple(f"/trainshed/v1/{name}" for name in OF_CALLERS)
#: Signing in needs no token, and signing out forgets only the browser's own sign-in.
FOR_STRANGERS = "/trainshed/v1/signin"
CLOSED = [pair for pair in NATIVE if pair[1] != FOR_STRANGERS]
#: What a route needs before it looks for its job.
QUERIES = {"logs:search": "?q=step"}
DOCUMENTS = {":label": {"labels": {"team": "vision"}}}
#: Routes that viewers of all projects may read.
FOR_OVERSEERS = ("/trainshed/v1/metrics", "/trainshed/v1/metrics/jobs")
ADMINISTRATION = [pair for pair in NATIVE if pair not in OF_PROJECTS and pair[1] not in FOR_ALL]
STORAGE = list(storage_paths())
OF_BUCKETS = [(verb, path) for verb, path in STORAGE if "{bucket}" in path]


# ---- native routes ----


@pytest.mark.parametrize(("verb", "path"), OF_PROJECTS)
def test_the_native_routes_tell_nothing_of_others(world, verb, path):
    for kind in ("ml", "customJobs"):
        job = world.ids[kind]
        answers = []
        for project, name in ((FOREIGN, job), (NEVER, ghost_of(job))):
            names = {**NAMES, "project": project, "job": name}
            answers.append(answer(world, verb, path, names))
        assert answers[0] == answers[1]
        assert answers[0][0] == 403
        if "{job}" not in path:
            continue
        own = [{"project": OWN, "job": name} for name in (job, ghost_of(job))]
        pair = [answer(world, verb, path, names) for names in own]
        assert pair[0] == pair[1]
        assert pair[0][0] == 404


def answer(world, verb, path, names):
    query = next((text for end, text in QUERIES.items() if path.endswith(end)), "")
    document = next((body for end, body in DOCUMENTS.items() if path.endswith(end)), None)
    return mask_names(world.call(verb, filled(path, names) + query, "alpha", document), names)


#: The node is there, and stays as it is.
NAMES = {
    "token": "none",
    "key": "none",
    "node": os.uname().nodename,
    "bucket": "none",
    "uid": "1",
    "attempt": "1",
}


@pytest.mark.parametrize(("verb", "path"), ADMINISTRATION)
def test_only_administrators_of_everything_administer(world, verb, path):
    document = {} if verb == "POST" else None
    of_all = () if path in FOR_OVERSEERS else ("any-submitter",)
    for token in ("alpha", "bravo-admin", "bravo-viewer", *of_all):
        names = NAMES
        status, text = world.call(verb, filled(path, names), token, document)
        assert status == 403, text
        assert "administrator" in text


@pytest.mark.parametrize(("verb", "path"), CLOSED)
def test_the_native_routes_are_closed_to_nobody_and_to_revoked_tokens(world, verb, path):
    names = {**NAMES, "project": FOREIGN, "job": world.ids["ml"]}
    check_strangers(world, verb, filled(path, names), {} if verb == "POST" else None)


# ---- buckets ----


@pytest.mark.parametrize(("verb", "path"), OF_BUCKETS)
def test_a_foreign_bucket_is_told_like_one_that_does_not_exist(world, verb, path):
    answers = []
    for real in (True, False):
        names = world.names(OWN, real=real)
        answer = world.call(verb, filled(path, names), "alpha", body_of(verb, path))
        answers.append(mask_names(answer, names))
    assert answers[0] == answers[1]
    assert answers[0][0] == 404


@pytest.mark.parametrize("action", ["rewriteTo", "copyTo"])
def test_nothing_is_copied_into_a_foreign_bucket(world, action):
    answers = []
    for bucket in ("bravo-bucket", "never-bucket"):
        path = f"/storage/v1/b/alpha-bucket/o/mine/{action}/b/{bucket}/o/theirs"
        answers.append(mask_names(world.call("POST", path, "alpha", {}), {"bucket": bucket}))
    assert answers[0] == answers[1]
    assert answers[0][0] == 404


@pytest.mark.parametrize("verb", ["GET", "POST"])
def test_buckets_of_a_foreign_project_are_neither_listed_nor_made(world, verb):
    document = {"name": "another-bucket"} if verb == "POST" else None
    answers = []
    for project in (FOREIGN, NEVER):
        answer = world.call(verb, f"/storage/v1/b?project={project}", "alpha", document)
        answers.append(mask_names(answer, {"project": project}))
    assert answers[0] == answers[1]
    assert answers[0][0] == 403


def test_a_list_of_buckets_has_the_own_ones_only(world):
    for query in ("", f"?project={OWN}"):
        status, text = world.call("GET", f"/storage/v1/b{query}", "alpha")
        assert status == 200
        assert [item["name"] for item in json.loads(text)["items"]] == ["alpha-bucket"]


def test_a_foreign_buckets_name_is_taken_and_no_more_is_told(world):
    answer = world.call("POST", f"/storage/v1/b?project={OWN}", "alpha", {"name": "bravo-bucket"})
    assert answer[0] == 409
    assert FOREIGN not in answer[1]


#: What buckets here do not have, whoever asks: Google's answers for a bucket without them.
NOT_HERE = {"{bucket}/managedFolders/{name:path}": 404, "{bucket}/folders": 409}


@pytest.mark.parametrize(("verb", "path"), STORAGE)
def test_a_viewer_changes_nothing_in_buckets(world, verb, path):
    names = {**world.names(FOREIGN, real=True), "other": "bravo-bucket"}
    query = f"?project={FOREIGN}" if "{bucket}" not in path else ""
    status, text = world.call(
        verb, filled(path, names) + query, "bravo-viewer", body_of(verb, path)
    )
    assert status == (NOT_HERE.get(path.rpartition("/b/")[2], 200) if verb == "GET" else 403), text


@pytest.mark.parametrize(("verb", "path"), STORAGE)
def test_buckets_are_closed_to_nobody_and_to_revoked_tokens(world, verb, path):
    path = filled(path, world.names(FOREIGN, real=True))
    check_strangers(world, verb, path, body_of(verb, path))
    for token in ("revoked", "alpha", "root"):  # no path is a place for what opens more
        assert world.call(verb, f"/as/{world.tokens[token]}{path}", None)[0] == 401
    if "/b/" in path:
        assert world.call(verb, f"/as/{world.tokens['alpha-bucket']}{path}", None)[0] == 404


def test_a_job_neither_reads_nor_writes_a_foreign_bucket(world):
    answers = []
    for bucket in ("bravo-bucket", "never-bucket"):
        document = ml_job("thief", jobDir=f"gs://{bucket}/out")
        answer = world.call("POST", f"/v1/projects/{OWN}/jobs", "alpha", document)
        answers.append(mask_names(answer, {"bucket": bucket}))
    assert answers[0] == answers[1]
    assert answers[0][0] == 400
    assert "trainingInput.jobDir" in answers[0][1]
