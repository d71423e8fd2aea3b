"""The native routes of figures over time: use of machines, scalars, and progress."""

import time
from types import SimpleNamespace

import pytest

from api.support import application, client, native_routes
from databases import new_database
from engines.events import event, record, simple
from store.builders import add, add_study, go, place
from trainshed.api.native.figures import figure_router
from trainshed.engines.several import Engines
from trainshed.files.beneath import PathBeneath
from trainshed.model.attempt import AttemptKey
from trainshed.model.job import JobSpec, ReplicaGroup
from trainshed.model.roles import Dialect, Role
from trainshed.model.status import JobState
from trainshed.model.usage import GpuUsage, ReplicaUsage, Spread, UsageLine
from trainshed.service.costs.job_accounts import JobAccounts
from trainshed.service.costs.prices import PriceSource
from trainshed.service.figures.progress import ProgressReader
from trainshed.service.figures.scalars import ScalarReader
from trainshed.service.figures.usage import UsageReader
from trainshed.service.goodput.reader import GoodputReader
from trainshed.service.jobs.story import Stories
from trainshed.storage.buckets import buckets_of
from trainshed.store.opening import open_store
from trainshed.store.records.steps import NewEvent
from trainshed.testing.fake_engine import FakeEngine

ROUTES = "/trainshed/v1/projects"
TASK = "workerpool0-0"
GPU = "GPU-1"
NO_WORK_FOLDER = (
    "event files in the working folder are not read: the engine fake does not keep it; write them "
    "below the job's output directory in a bucket"
)


@pytest.fixture
def world(tmp_path):
    """A server with a fake engine, whose folder of buckets is ``folder``."""
    new_database(tmp_path)
    clock = SimpleNamespace(now_s=1000.0, store_s=1_764_500_000)
    store = open_store(f"sqlite:///{tmp_path / 'trainshed.db'}", lambda: clock.store_s * 10**9)
    engine = FakeEngine([])
    usage = UsageReader(Stories(store), Engines.from_engine(engine))
    scalars = ScalarReader(usage, buckets_of(tmp_path), {"far"})
    progress = ProgressReader(
        store, usage.engines, PriceSource(), lambda _project, _spec: 2.5, lambda: clock.now_s
    )
    router = figure_router(lambda: usage, lambda: scalars, lambda: progress)
    with client(application([], native=native_routes(router))) as edge:
        yield SimpleNamespace(
            store=store, engine=engine, edge=edge, folder=tmp_path, clock=clock, progress=progress
        )
    store.close()


def get(world, path, status=200, project="demo"):
    answer = world.edge.get(f"{ROUTES}/{project}/{path}")
    assert answer.status_code == status, answer.text
    return answer.json()


def running_job(world, job_id="census", **changes):
    """A job whose first attempt runs."""
    uid = add(world.store, project="demo", job_id=job_id, **changes).uid
    place(world.store, uid)
    return go(world.store, uid, JobState.RUNNING)


def line(at, cpu=1.0, step=None, gpus=None, **values):
    spreads = {name: Spread(value, value, value) for name, value in values.items()}
    replica = ReplicaUsage(cpu=Spread(0, cpu, 2 * cpu), step=step, total=100, values=spreads)
    use = GpuUsage(use=Spread(0, 0.5, 1)) if gpus is None else gpus
    return UsageLine(at, 10, {TASK: replica}, {GPU: use})


def give(world, job, *lines, attempt=1):
    world.engine.usage[AttemptKey(job.uid, attempt)] += lines


def test_the_usage_of_a_job_has_a_curve_for_each_replica_and_gpu(world):
    job = running_job(world)
    give(world, job, line(1010.0), line(1020.0, cpu=3.0))
    body = get(world, "jobs/census/usage")
    cpu, use = body["series"]
    points = [[1010, 0, 1, 2], [1020, 0, 3, 6]]
    expected = {"name": "cpu", "unit": "cores", "attempt": 1, "task": TASK, "gpu": None}
    assert cpu == {**expected, "points": points}
    assert (use["name"], use["gpu"], use["task"]) == ("gpu_use", GPU, None)
    (attempt,) = body["attempts"]
    assert (attempt["attempt"], attempt["end"]) == (1, None)
    assert body["missing"] == [
        f"the {word} of {GPU} was not measured in attempt 1"
        for word in ("memory", "power", "temperature")
    ]


def test_an_attempt_without_samples_is_said_and_is_not_zero(world):
    running_job(world)
    body = get(world, "jobs/census/usage")
    assert body["series"] == []
    assert "attempt 1 has no samples" in body["missing"][0]


def test_gpus_that_were_not_measured_are_said(world):
    job = running_job(world)
    give(world, job, UsageLine(1010.0, 10, {TASK: ReplicaUsage(cpu=Spread(1, 1, 1))}))
    assert get(world, "jobs/census/usage")["missing"] == ["the GPUs of attempt 1 were not measured"]


def test_a_time_and_a_number_of_points_can_be_asked_for(world):
    job = running_job(world)
    give(world, job, *(line(1000.0 + 10 * number, cpu=number) for number in range(100)))
    cpu, _ = get(world, "jobs/census/usage?since=1100&until=1490&points=4")["series"]
    assert len(cpu["points"]) == 4
    assert (cpu["points"][-1][0], cpu["points"][-1][3]) == (1490, 98)


def test_the_attempts_of_a_job_have_their_own_curves(world):
    job = running_job(world)
    restarting = NewEvent(kind="RESTARTING", message="Attempt 1 was lost.")
    go(world.store, job.uid, JobState.QUEUED, events=(restarting,))
    place(world.store, job.uid)
    give(world, job, line(1010.0))
    give(world, job, line(2010.0), attempt=2)
    body = get(world, "jobs/census/usage")
    assert [one["attempt"] for one in body["series"]] == [2, 2, 1, 1]
    first, second = body["attempts"]
    assert first["start"] <= first["end"] <= second["start"]
    assert second["end"] is None
    assert {s["attempt"] for s in get(world, "jobs/census/usage?attempt=1")["series"]} == {1}
    message = get(world, "jobs/census/usage?attempt=3", status=404)["error"]["message"]
    assert message.endswith("has no attempt 3; its newest is 2")


def test_an_engine_that_cannot_be_reached_is_said(world):
    job = running_job(world)
    give(world, job, line(1010.0))
    world.engine.unreachable = True
    (sentence,) = get(world, "jobs/census/usage")["missing"]
    assert sentence.startswith("cannot read the samples of attempt 1: ")


def test_values_given_to_progress_are_scalars(world):
    job = running_job(world)
    give(world, job, line(1010.0, step=(1, 20), loss=4.0), line(1020.0, step=(21, 40), loss=3.0))
    body = get(world, "jobs/census/scalars")
    assert (body["complete"], body["left_out"]) == (True, [NO_WORK_FOLDER])
    assert body["series"] == [
        {
            "name": "loss",
            "source": "progress",
            "run": TASK,
            "attempt": 1,
            "points": [[20, 1010, 4, 4, 4], [40, 1020, 3, 3, 3]],
        }
    ]
    assert get(world, "jobs/census/scalars?names=accuracy")["series"] == []


@pytest.mark.parametrize(
    ("directory", "below"),
    [({"base_output_dir": "gs://data/out"}, "out/logs"), ({"job_dir": "gs://data/out/"}, "out")],
)
def test_event_files_below_the_log_directory_are_scalars(world, directory, below):
    world.store.add_bucket("data", "demo")
    job = running_job(world, **directory)
    started_s = world.store.events(job.uid)[-1].stamp_ns // 10**9
    logs = world.folder / "buckets/data" / below / "train"
    logs.mkdir(parents=True)
    content = record(event(simple("loss", 2.0), step=5, at_s=started_s + 1.5))
    (logs / f"events.out.tfevents.{started_s + 1}.host").write_bytes(content)
    (curve,) = get(world, "jobs/census/scalars")["series"]
    assert (curve["name"], curve["source"], curve["run"]) == ("loss", "event files", "train")
    assert curve["points"] == [[5, started_s + 1.5, 2, 2, 2]]


@pytest.mark.parametrize("path", ["usage", "scalars"])
def test_a_tuning_job_has_the_figures_of_its_trials(world, path):
    add_study(world.store, project="demo", job_id="tune")
    body = get(world, f"jobs/tune/{path}")
    sentences = body["missing" if path == "usage" else "left_out"]
    assert sentences == ["a tuning job has no figures of its own; ask for one of its trials"]


def test_event_files_of_a_bucket_of_another_project_are_not_read(world):
    world.store.add_bucket("data", "other")
    running_job(world, job_dir="gs://data/out")
    logs = world.folder / "buckets/data/out"
    logs.mkdir(parents=True)
    (logs / "events.out.tfevents.9764500000.host").write_bytes(record(event(simple("loss", 2.0))))
    assert get(world, "jobs/census/scalars")["series"] == []


def test_a_remote_bucket_is_not_read_and_is_said(world):
    world.store.add_bucket("far", "demo")
    running_job(world, base_output_dir="gs://far/out")
    (sentence,) = get(world, "jobs/census/scalars")["left_out"]
    assert sentence.startswith("event files in gs://far/out are not read, because the bucket is r")


def test_event_files_in_the_working_folder_are_scalars(world):
    running_job(world)
    world.engine.work_folder = lambda key: PathBeneath(world.folder / str(key.attempt))
    runs = world.folder / "1" / "runs"
    runs.mkdir(parents=True)
    (runs / "events.out.tfevents.1764500000.host").write_bytes(record(event(simple("loss", 2.0))))
    (curve,) = get(world, "jobs/census/scalars")["series"]
    assert (curve["name"], curve["run"], curve["attempt"]) == ("loss", "runs", 1)


def test_series_beyond_the_limit_are_said(world):
    job = running_job(world)
    values = [{f"v{number}": 1.0} for number in range(250)]
    give(world, job, *(line(1000.0 + at, step=(at, at), **one) for at, one in enumerate(values)))
    body = get(world, "jobs/census/scalars")
    assert len(body["series"]) == 200
    assert body["left_out"] == [
        NO_WORK_FOLDER,
        "50 of 250 series are left out; ask for some of them with names=NAME",
    ]


def test_replicas_and_attempts_beyond_the_limits_are_said(world, monkeypatch):
    job = running_job(world)
    go(world.store, job.uid, JobState.QUEUED)
    place(world.store, job.uid)
    replica = ReplicaUsage(cpu=Spread(1, 1, 1))
    give(world, job, UsageLine(1.0, 1, {f"worker-{n}": replica for n in range(250)}), attempt=2)
    body = get(world, "jobs/census/usage")
    assert len(body["series"]) == 200
    assert body["missing"][-1].startswith("50 of 250 series are left out")
    world.engine.usage.clear()
    monkeypatch.setattr("trainshed.service.figures.usage.ATTEMPTS_MAX", 1)
    *_, last = get(world, "jobs/census/usage")["missing"]
    assert last.startswith("attempts up to 1 are left out")
    assert not any(
        "left out" in text for text in get(world, "jobs/census/usage?attempt=1")["missing"]
    )


@pytest.mark.parametrize("path", ["usage", "scalars"])
@pytest.mark.parametrize("query", ["points=1", "points=2001"])
def test_numbers_of_points_beyond_the_limits_are_refused(world, path, query):
    running_job(world)
    error = get(world, f"jobs/census/{path}?{query}", status=400)["error"]
    assert error["status"] == "INVALID_ARGUMENT"


@pytest.mark.parametrize("path", ["usage", "scalars"])
def test_a_job_that_does_not_exist_has_no_figures(world, path):
    assert get(world, f"jobs/none/{path}", status=404)["error"]["status"] == "NOT_FOUND"


def progress_of(world, project="demo"):
    return get(world, "progress", project=project)["rows"]


def test_the_progress_of_running_jobs_has_step_rate_and_use(world):
    job = running_job(world)
    now_s = time.time()
    give(world, job, line(now_s - 20, step=(100, 110)), line(now_s - 10, step=(110, 120)))
    (row,) = progress_of(world)
    assert (row["job"], row["attempt"], row["step"], row["total"]) == (job.name, 1, 120, 100)
    assert (row["step_s"], row["predicted_step_s"], row["gpu_use"]) == (1.0, 2.5, 0.5)
    assert row["cost"] is None, "its machine types have no price"


def test_the_cost_of_a_running_job_is_that_of_its_goodput(world):
    group = ReplicaGroup(role=Role.PRIMARY, count=2, machine_type="n1-standard-4")
    other = ReplicaGroup(role=Role.WORKER, count=3, machine_type="my-own")
    spec = JobSpec(dialect=Dialect.AIPLATFORM_V1, region="us-central1", groups=(group, other))
    job = running_job(world, expanded=spec)
    world.clock.store_s += 600
    restarting = NewEvent(kind="RESTARTING", message="Attempt 1 was lost.")
    go(world.store, job.uid, JobState.QUEUED, events=(restarting,))
    world.clock.store_s += 900
    place(world.store, job.uid)
    go(world.store, job.uid, JobState.RUNNING)
    world.clock.store_s += 3000
    (row,) = progress_of(world)
    reader = GoodputReader(
        stories=Stories(world.store),
        accounts=JobAccounts(
            store=world.store, engines=Engines.from_engine(world.engine), prices=PriceSource()
        ),
    )
    goodput = reader.goodput("demo", "census")
    assert goodput.seconds["held"] == 3600
    assert row["cost"]["amount"] == pytest.approx(goodput.cost["amount"])
    assert row["cost"]["amount"] == pytest.approx(2 * 0.19, rel=0.2), "an hour of two machines"
    same = ("currency", "at_least", "lacking", "source", "date")
    assert [row["cost"][name] for name in same] == [goodput.cost[name] for name in same]
    assert row["cost"]["at_least"]


def test_progress_is_computed_once_in_ten_seconds(world):
    job = running_job(world)
    now_s = time.time()
    give(world, job, line(now_s, step=(1, 2)))
    assert progress_of(world)[0]["step"] == 2
    give(world, job, line(now_s + 1, step=(3, 4)))
    world.clock.now_s += 9
    assert progress_of(world)[0]["step"] == 2
    world.clock.now_s += 1
    assert progress_of(world)[0]["step"] == 4


def test_progress_is_that_of_visible_jobs_that_run(world):
    add(world.store, project="demo", job_id="waits")
    running_job(world)
    add_study(world.store, project="demo", job_id="tune")
    uid = add(world.store, project="other", job_id="foreign").uid
    place(world.store, uid)
    go(world.store, uid, JobState.RUNNING)
    assert [row["project"] for row in progress_of(world)] == ["demo"]
    assert [row["project"] for row in progress_of(world, project="-")] == ["demo"]


def test_a_job_without_samples_has_no_figures_and_no_zeros(world):
    running_job(world)
    (row,) = progress_of(world)
    assert [row[name] for name in ("step", "total", "step_s", "gpu_use")] == [None] * 4


def test_a_job_that_makes_no_steps_any_more_keeps_its_last_one(world):
    job = running_job(world)
    at = time.time()
    give(world, job, line(at - 300, step=(1, 59)))
    give(world, job, *(line(at - 290 + 10 * number) for number in range(29)))
    (row,) = progress_of(world)
    assert (row["step"], row["total"], row["step_s"]) == (59, 100, None)
    assert world.progress.reported_s == {job.name: at - 300}
    give(world, job, line(at, step=(60, 61)))
    world.clock.now_s += 10
    assert progress_of(world)[0]["step"] == 61
    assert world.progress.reported_s == {job.name: at}
    world.engine.usage[AttemptKey(job.uid, 1)] = [line(at)]
    world.clock.now_s += 10
    assert progress_of(world)[0]["step"] == 61


def test_a_sample_is_read_once(world, monkeypatch):
    job = running_job(world)
    now_s = time.time()
    give(world, job, line(now_s - 20, step=(1, 2)), line(now_s - 10, step=(3, 4)))
    read, lines = world.engine.read_newest_usage, []

    def read_newest_usage(*args):
        lines.extend(added := read(*args))
        return added

    monkeypatch.setattr(world.engine, "read_newest_usage", read_newest_usage)
    assert progress_of(world)[0]["step_s"] == 5.0
    give(world, job, line(now_s, step=(5, 9)))
    world.clock.now_s += 10
    assert progress_of(world)[0]["step_s"] == pytest.approx(20 / 7)
    assert [one.at for one in lines] == [now_s - 20, now_s - 10, now_s]


def test_samples_after_a_clock_was_set_back_are_read(world):
    job = running_job(world)
    now_s = time.time()
    give(world, job, line(now_s + 600, step=(1, 2)))
    assert progress_of(world)[0]["step"] == 2
    world.engine.usage.clear()
    give(world, job, line(now_s, step=(3, 4)))
    world.clock.now_s += 10
    assert progress_of(world)[0]["step"] == 4


def test_many_jobs_are_read_in_several_answers(world, monkeypatch):
    monkeypatch.setattr("trainshed.service.figures.progress.CPU_S_MAX", 0.0)
    for name in ("a", "b", "c"):
        give(world, running_job(world, name), line(time.time(), step=(1, 2)))
    for count in (1, 2, 3, 3):
        assert sum(row["step"] == 2 for row in progress_of(world)) == count
        world.clock.now_s += 10


def test_the_progress_of_one_job_is_read_now(world):
    job = running_job(world)
    running_job(world, "other")
    give(world, job, line(time.time(), step=(1, 2)))
    (row,) = get(world, "progress?job=census")["rows"]
    assert (row["job"], row["step"]) == (job.name, 2)
    assert row.keys() == progress_of(world)[0].keys()
    give(world, job, line(time.time(), step=(3, 4)))
    assert get(world, "progress?job=census")["rows"][0]["step"] == 4
    add(world.store, project="demo", job_id="waits")
    add_study(world.store, project="demo", job_id="tune")
    assert get(world, "progress?job=waits")["rows"] == []
    assert get(world, "progress?job=tune")["rows"] == []
    assert get(world, "progress?job=none", status=404)["error"]["status"] == "NOT_FOUND"


def test_the_project_of_one_job_must_be_given(world):
    running_job(world)
    error = get(world, "progress?job=census", status=400, project="-")["error"]
    assert error["message"] == "project must be the one of job census, got -"
