"""The native route of the use of machines: a caller of one project sees this project alone."""

from datetime import UTC, datetime
from types import SimpleNamespace

import pytest

from api.support import application, client, native_routes
from databases import new_database
from store.builders import add, usage_row
from trainshed.api.native.usage import usage_router
from trainshed.planning.usage_days import today
from trainshed.service.costs.usage_report import UsageReports
from trainshed.store.opening import open_store
from trainshed.store.records.usage import JobUse, MachineRow

TODAY = today(datetime.now(UTC))


@pytest.fixture
def world(tmp_path):
    """A store with a job in each of two projects."""
    store = open_store(new_database(tmp_path))
    for project in ("demo", "other"):
        job = add(store, project=project, job_id=project)
        rows = [usage_row(TODAY), usage_row(TODAY - 1, hour_price=None)]
        store.write_uses([JobUse(job, rows, machines=[machine_row(f"GPU-{project}")])])
    yield SimpleNamespace(store=store, router=usage_router(UsageReports(store)))
    store.close()


def machine_row(gpu):
    """Time of a GPU of the node that both projects use."""
    return MachineRow(
        attempt=1,
        machine_type="a2-highgpu-1g",
        day=TODAY,
        engine="local",
        node="n1",
        gpu=gpu,
        gpu_index=0,
        gpu_type="A100",
        gpus=1,
        vcpus=12.0,
        seconds={"productive": 60.0},
        energy_j=None,
        hour_price=None,
    )


def get(world, caller="admin", status=200, **query):
    with client(application([], native=native_routes(world.router)), caller) as edge:
        answer = edge.get("/trainshed/v1/usage", params=query)
    assert answer.status_code == status, answer.text
    return answer.json()


def test_a_caller_of_all_projects_sees_all_and_the_fleet(world):
    body = get(world)
    assert [(usage["key"], usage["jobs"]) for usage in body["rows"]] == [("demo", 1), ("other", 1)]
    assert body["fleet"] == {"gpu_seconds": {}}
    assert body["total"]["gpu_seconds"] == {"productive": 480.0, "starting": 32.0}
    assert body["total"]["cost"]["at_least"]
    assert [usage["key"] for usage in get(world, project="other")["rows"]] == ["other"]


@pytest.mark.parametrize("token", ["demo", "reader"])
def test_a_caller_of_one_project_sees_that_project(world, token):
    body = get(world, token)
    assert [usage["key"] for usage in body["rows"]] == ["demo"]
    assert body["total"]["jobs"] == 1
    assert body["fleet"] is None
    assert get(world, token, project="demo") == body
    assert "other" in get(world, token, 403, project="other")["error"]["message"]


@pytest.mark.parametrize("by", ["project", "user", "type", "day", "job", "node", "gpu"])
def test_no_report_shows_a_caller_of_one_project_another_one(world, by):
    """Two projects use one node."""
    body = get(world, "reader", by=by)
    assert body["rows"]
    assert "other" not in str(body).replace("other_costs", "")
    if by in {"node", "gpu"}:
        [usage] = body["rows"]
        assert [holder["project"] for holder in usage["holders"]] == ["demo"]
        assert usage["gpu_seconds"] == {"productive": 60.0}
        both = [holder["project"] for row in get(world, by=by)["rows"] for holder in row["holders"]]
        assert sorted(both) == ["demo", "other"]


def test_days_and_words_that_are_wrong_are_refused(world):
    assert get(world, by="day", since="yesterday", until="yesterday")["total"]["jobs"] == 2
    get(world, status=400, since="last week")
    get(world, status=400, since="today", until="yesterday")
    get(world, status=400, by="week")
    get(world, status=400, since="2" * 99)
