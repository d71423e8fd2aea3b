"""A project's jobs, pipelines and logs are invisible to others, by every route there is.

Whoever asks for something of another project is told what would be told if it never had been there:
the same status and, but for the names that the caller gave, the same words.
"""

import grpc
import pytest

from api.grpc_calls import GrpcClient
from e2e.every_route import GOOGLE, filled
from e2e.support import custom_job, good, wait_until
from e2e.world import FOREIGN, NEVER, OWN, body_of, check_strangers, ghost_of, mask_names
from trainshed.api.call import parameter_names
from trainshed.api.not_here import ABSENT
from trainshed.wire.descriptors import message_class

pytestmark = pytest.mark.slow

#: Parts of a name that are no resource's.
PLACES = {"project", "location"}
#: Rows that are asked with a POST and change nothing.
READS = ("/v2/entries:list", ":wait")


#: One function answers at all collections that are not here: ``make test`` tries those of one.
#: ``api/test_access_matrix.py`` calls all of them, in one process.
REPEATED = ABSENT.keys() - {"datasets"}


def every_row(rows):
    return pytest.mark.parametrize("row", [as_case(row, f"{row.verb} {row.path}") for row in rows])


def as_case(row, name):
    marks = () if REPEATED.isdisjoint(row.path.split("/")) else pytest.mark.full
    return pytest.param(row, marks=marks, id=name)


# ---- Google's routes ----


@every_row([row for row in GOOGLE if row.path != "/v2/entries:list"])
def test_a_foreign_project_is_told_like_one_that_does_not_exist(world, row):
    answers = []
    for project, real in ((FOREIGN, True), (NEVER, False)):
        names = world.names(project, real=real, row_path=row.path)
        path, body = filled(row.path, names), body_of(row.verb, row.path)
        answers.append(mask_names(world.call(row.verb, path, "alpha", body), names))
    assert answers[0] == answers[1]
    assert answers[0][0] == 403


@every_row([row for row in GOOGLE if set(parameter_names(row.path)) - PLACES])
def test_a_foreign_id_in_the_own_project_is_told_like_one_of_nothing(world, row):
    answers = []
    for real in (True, False):
        names = world.names(OWN, real=real, row_path=row.path)
        path, body = filled(row.path, names), body_of(row.verb, row.path)
        answers.append(mask_names(world.call(row.verb, path, "alpha", body), names))
    assert answers[0] == answers[1]
    assert answers[0][0] in {400, 404} or answers[0] == (200, "{}")


@every_row(GOOGLE)
def test_a_viewer_changes_nothing(world, row):
    names = world.names(FOREIGN, real=True, row_path=row.path)
    path, body = filled(row.path, names), body_of(row.verb, row.path)
    status, text = world.call(row.verb, path, "bravo-viewer", body)
    if row.verb == "GET" or row.path.endswith(READS):
        assert status in {200, 400, 404}, text
    else:
        # what is never there is told so, whoever asks
        is_not_here = status == 404 or (status == 400 and '"UNIMPLEMENTED"' in text)
        assert status == 403 or (is_not_here and "bravo-viewer is" not in text), text


@every_row(GOOGLE)
def test_nobody_and_a_revoked_token_are_refused(world, row):
    names = world.names(FOREIGN, real=True, row_path=row.path)
    path, body = filled(row.path, names), body_of(row.verb, row.path)
    check_strangers(world, row.verb, path, body)


@pytest.fixture(scope="module")
def rpc(world):
    address = world.server.address
    authority = (world.server.data_dir / "tls" / "ca.pem").read_bytes()
    credentials = grpc.ssl_channel_credentials(authority)
    with grpc.secure_channel(address["grpc"], credentials) as channel:
        yield GrpcClient(channel, GOOGLE, 0, tls=None)


@pytest.mark.parametrize(
    "row",
    [as_case(row, row.rpc) for row in GOOGLE if row.rpc and row.path != "/v2/entries:list"],
)
def test_grpc_tells_the_same(world, rpc, row):
    def ask(project, *, real, token):
        names = world.names(project, real=real, row_path=row.path)
        path = filled(row.path, names).partition("/")[2].partition("/")[2].partition(":")[0]
        key, name = request_name(row, path)
        with pytest.raises(grpc.RpcError) as caught:
            rpc.call(row.rpc, {key: name}, token and world.tokens[token])
        return mask_names((caught.value.code().name, caught.value.details()), names)

    foreign = ask(FOREIGN, real=True, token="alpha")
    assert foreign == ask(NEVER, real=False, token="alpha")
    assert foreign[0] == "PERMISSION_DENIED"
    assert ask(FOREIGN, real=True, token=None)[0] == "PERMISSION_DENIED"
    assert ask(FOREIGN, real=True, token="revoked")[0] == "UNAUTHENTICATED"


def request_name(row, path):
    """The field of the request that names the resource, and the name in it."""
    fields = message_class(row.request).DESCRIPTOR.fields_by_name
    if "parent" in fields:
        return "parent", path.rpartition("/")[0]
    if "ListOperations" in row.rpc:
        return "name", path.rpartition("/")[0]
    return "name", path


# ---- logs ----


def log_query(project, job):
    return {
        "filter": f'resource.type="ml_job" AND resource.labels.job_id="{job}" AND '
        'timestamp>="1970-01-01T01:00:00.000000000Z"',
        "orderBy": "timestamp asc",
        "pageSize": 1000,
        "resourceNames": [f"projects/{project}"],
    }


@pytest.mark.parametrize("kind", ["ml", "customJobs"])
def test_a_foreign_log_is_not_read(world, kind):
    job = world.ids[kind]
    entries = "/v2/entries:list"
    wait_until(lambda: "secret" in world.call("POST", entries, "root", log_query(FOREIGN, job))[1])
    foreign = world.call("POST", entries, "alpha", log_query(FOREIGN, job))
    never = world.call("POST", entries, "alpha", log_query(NEVER, ghost_of(job)))
    assert mask_names(foreign, {"p": FOREIGN}) == mask_names(never, {"p": NEVER})
    assert foreign[0] == 403
    own = world.call("POST", entries, "alpha", log_query(OWN, job))
    assert own == world.call("POST", entries, "alpha", log_query(OWN, ghost_of(job)))
    assert own == (200, "{}")
    assert world.call("POST", entries, "bravo-viewer", log_query(FOREIGN, job))[0] == 200


@pytest.mark.parametrize("names", [[OWN, FOREIGN], [FOREIGN, OWN]])
def test_a_log_of_two_projects_at_once_is_not_read(world, names):
    document = log_query(OWN, world.ids["ml"])
    document["resourceNames"] = [f"projects/{name}" for name in names]
    status, text = world.call("POST", "/v2/entries:list", "alpha", document)
    assert status in {400, 403}, text
    assert "secret" not in text


# ---- what is told by the way ----


def test_a_token_of_a_page_leads_nowhere_in_another_project(world):
    bravo = f"/v1/projects/{FOREIGN}/locations/us-central1/customJobs"
    created = good(world.server.call("POST", bravo, custom_job("second")))["name"]
    world.server.wait_for(f"/v1/{created}", {"JOB_STATE_SUCCEEDED"})
    token = good(world.server.call("GET", f"{bravo}?pageSize=1"))["nextPageToken"]
    good(world.server.call("DELETE", f"/v1/{created}"))
    own = bravo.replace(FOREIGN, OWN)
    status, text = world.call("GET", f"{own}?pageSize=1&pageToken={token}", "alpha")
    assert status == 400
    assert "page_token" in text
