"""A server that is wired and not yet started."""

import os
import stat
import subprocess
import sys

import pytest

from collector import Collector, skip_without_opentelemetry
from store.builders import new_job
from trainshed.app import application, chores
from trainshed.app.application import build
from trainshed.app.bucket_objects import user_of_bucket
from trainshed.config import Settings
from trainshed.config.settings import OtelSettings
from trainshed.engines.local import factory
from trainshed.model.attempt import AttemptKey
from trainshed.model.restarts import Budgets
from trainshed.store.base import StoreFault
from trainshed.store.records.steps import NewEvent
from trainshed.testing.fake_engine import FakeEngine


@pytest.mark.parametrize("module", ["app.application", "cli.local.local_train"])
def test_what_few_jobs_need_is_imported_when_one_does(module):
    """Each takes a tenth of a start, or many megabytes for as long as a server runs."""
    code = f"import sys, trainshed.{module}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    heavy = {"numpy", "scipy", "torch", "optuna", "fsspec", "opentelemetry", "requests"}
    if module != "app.application":
        heavy |= {"hashlib", "importlib.metadata", "subprocess", "tempfile", "tomllib", "yaml"}
    assert not heavy.intersection(done.stdout.split())


def test_servers_of_other_machines_are_refused_while_they_live(tmp_path):
    """Each would take the other's node for gone, and fail the jobs that are placed there."""
    application = build(Settings(data_dir=tmp_path))
    try:
        application.store.join("gpu-box-17-abc123~1", 60.0)
        with pytest.raises(StoreFault, match="a server on gpu-box uses this database"):
            application.start()
        application.store.leave("gpu-box-17-abc123~1")
        application.store.join(f"{os.uname().nodename}-17-abc123", 60.0)
        application.start()
    finally:
        application.stop()


def test_jobs_folders_are_the_servers_alone_also_those_of_an_older_release(tmp_path):
    (tmp_path / "jobs").mkdir(mode=0o755)
    application = build(Settings(data_dir=tmp_path))
    application.stop()
    assert stat.S_IMODE((tmp_path / "jobs").stat().st_mode) == 0o700


def test_what_is_set_reaches_those_who_act_on_it(tmp_path, monkeypatch):
    options_of = {}

    def noting(name, factory_of):
        def make(*args, **options):
            options_of[name] = options
            return factory_of(*args, **options)

        return make

    for owner, name in (
        *((application, name) for name in ("Controller", "SubmitRules", "NodeService")),
        (chores, "Expiry"),
        (factory, "LocalOptions"),
    ):
        monkeypatch.setattr(owner, name, noting(name, getattr(owner, name)))
    settings = Settings(
        data_dir=tmp_path,
        restarts_infra=7,
        restarts_user=2,
        hang_s=None,
        hang_restart=True,
        hang_stacks=False,
        running_days_default=0.5,
        finished_days_max=3.0,
        notice_s=33.0,
        fake_gpus=2,
        gpu_wait_s=44.0,
        gpu_alias={"NVIDIA_TESLA_V100": "NVIDIA_L4"},
    )
    build(settings).stop()
    assert options_of["Controller"]["budgets"] == Budgets(infra=7, user=2)
    assert options_of["Controller"]["hang_restart"] is True
    assert (options_of["LocalOptions"]["hang_s"], options_of["LocalOptions"]["hang_stacks"]) == (
        None,
        False,
    )
    assert (options_of["LocalOptions"]["fake_gpus"], options_of["LocalOptions"]["gpu_wait_s"]) == (
        2,
        44.0,
    )
    aliases = options_of["LocalOptions"]["gpu_alias"]
    assert (aliases["NVIDIA_TESLA_T4"], aliases["NVIDIA_TESLA_V100"]) == ("any", "NVIDIA_L4")
    assert options_of["SubmitRules"]["running_s_default"] == 43_200
    assert options_of["Expiry"]["days_max"] == 3.0
    assert options_of["NodeService"]["notice_s"] == 33.0


def test_a_server_with_an_endpoint_sends_the_phases_of_jobs(tmp_path):
    skip_without_opentelemetry()
    collector = Collector()
    otel = OtelSettings(endpoint=f"{collector.url}/v1/traces")
    server = build(Settings(data_dir=tmp_path, otel=otel), engine=FakeEngine(()))
    try:
        server.start()
        uid = server.store.add_job(new_job())[0].uid
        server.store.add_event(uid, NewEvent(kind="PREPARING", message="Job is preparing."))
        collector.wait_for("job.queued")
    finally:
        server.stop()
        collector.close()
    parent = server.traces.parent_of(AttemptKey(uid, 1))
    assert collector.spans[0].trace_id.hex() in parent


class OfOneProject:
    """A store with one bucket, of the fourth project that had a job."""

    def bucket(self, name):
        return ("p", None) if name == "far" else None

    def owner_number(self, _):
        return 3


def test_the_user_of_a_buckets_project_is_the_one_of_its_jobs():
    store = OfOneProject()
    assert user_of_bucket(store, (1000, 1010), "far") == 1003
    assert user_of_bucket(store, (1000, 1010), "of-no-project") is None
    assert user_of_bucket(store, None, "far") is None
    with pytest.raises(PermissionError, match="no number left"):
        user_of_bucket(store, (1000, 1002), "far")
