"""Trainings that are stopped again and again: where they are, and the ways to stop them."""

import json
import os
import signal
import time
import urllib.request
from dataclasses import dataclass

from e2e import fleet
from e2e.chaos import records
from e2e.fleet import BUCKET
from e2e.support import custom_job, native, submit, wait_until
from examples.cluster import EXAMPLES
from trainshed.workbench.sdists import build_sdist

SAVE_EVERY = 10
STEP_S = 0.04
#: No stop comes so near to the end that the training may be quicker: it has ten seconds left.
LAST_STEPS = 250
NOTICE_S = 60
#: What a training has between two stops on average, beside its way back to where it was.
STEPS_PER_STOP = 45

MACHINE = {"machineType": "n1-standard-4"}


@dataclass(frozen=True)
class Training:
    """A job that keeps its checkpoints in the bucket of results."""

    server: object
    name: str
    checkpoints: object

    def wait_for(self, step):
        """Wait until it trains, and has come to about this step."""
        saved = step // SAVE_EVERY * SAVE_EVERY
        folder = self.folder
        self.wait_until(lambda: any(folder.joinpath("progress").glob("*-0")))
        self.wait_until(lambda: self._newest_step() >= saved)
        time.sleep((step - saved) * STEP_S)  # to a step between two checkpoints: the test's dice

    def wait_for_checkpoints(self, count=2):
        """Wait until it has saved so many more checkpoints: it has made steps since the call."""
        step = self._newest_step() + count * SAVE_EVERY
        self.wait_until(lambda: self._newest_step() >= step)

    def wait_until(self, is_so):
        """Wait for something that comes before the end."""

        def is_so_yet():
            state = native(self.server, self.name)["state"]
            assert state not in fleet.FINAL, fleet.story_text(self.server, self.name)
            return is_so()

        wait_until(is_so_yet, lambda: fleet.story_text(self.server, self.name), timeout_s=180)

    @property
    def folder(self):
        """The folder of its present attempt."""
        job = native(self.server, self.name)
        return self.server.data_dir / "jobs" / job["uid"] / str(job["attempt"])

    def _newest_step(self):
        names = [path.stem for path in self.checkpoints.glob("checkpoint-*")]
        return max((int(name.rpartition("-")[2]) for name in names), default=0)

    def weights(self):
        """The fingerprint of what it ended with."""
        job = fleet.ended(self.server, self.name, timeout_s=240)
        assert job["state"] == "SUCCEEDED", fleet.story_text(self.server, self.name)
        return json.loads((self.checkpoints.parent / "result.json").read_text())["weights_sha256"]


def by_notice(training):
    """Maintenance with time to save: the very step of the notice is kept."""
    fleet.maintain(training.server, NOTICE_S)
    fleet.queued(training.server, training.name)
    fleet.resume(training.server)


def without_notice(training):
    """Maintenance at once: killed wherever it is."""
    fleet.maintain(training.server, 0)
    fleet.queued(training.server, training.name)
    fleet.resume(training.server)


def by_the_supervisors_death(training):
    """SIGKILL of the process that owns the replicas: they die with it, without a word."""
    (began,) = records(training.folder, "Began")
    os.kill(began["pid"], signal.SIGKILL)


def by_notice_of_a_killed_server(training):
    """Maintenance whose server dies while the replicas save."""
    notice = training.folder / "progress" / "notice"
    fleet.maintain(training.server, NOTICE_S)
    training.wait_until(notice.exists)
    training.server.kill()
    training.server.start()
    fleet.queued(training.server, training.name)
    fleet.resume(training.server)


WAYS = (by_notice, without_notice, by_the_supervisors_death, by_notice_of_a_killed_server)


#: A training of nothing but numbers: its steps depend on each other and on chance.
SMALL = """\
import hashlib, json, os, random, sys, time
from trainshed_trainer import checkpoint_saver, latest_checkpoint, notice, progress

def save():
    state = json.dumps([step, weights, random.getstate()])
    saver.save(step, lambda out: out.write(state.encode()))
    print(f"saved step {step}", flush=True)

notice()  # from here on SIGTERM is a notice, not the end
random.seed(1)
saver = checkpoint_saver(suffix=".json")
newest = latest_checkpoint(pattern="checkpoint-*.json")
step, weights = 0, ""
if newest:
    step, weights, (version, numbers, gauss) = json.loads(newest.read_text())
    random.setstate((version, tuple(numbers), gauss))
print(f"resumed from step {step}" if newest else "started at step 0", flush=True)
while (step < STEPS or not os.path.exists(FINISH)) and notice() is None:
    weights = hashlib.sha256(f"{weights} {random.random()}".encode()).hexdigest()
    step += 1
    time.sleep(STEP_S)
    progress(step=step, total=STEPS)
    if step % SAVE_EVERY == 0:
        save()
if step < STEPS:
    save()
    print(f"told to stop at step {step}", flush=True)
    sys.exit(143)
(saver.directory.parent / "result.json").write_text(json.dumps({"weights_sha256": weights}))
"""


def small_job(  # noqa: PLR0913 - what differs between trainings
    server, name, steps, step_s, *, gpus=0, finish="/"
):
    """A program of the trainer library alone, as a job of Vertex.

    After its steps it goes on until the file ``finish`` exists.
    """
    values = {"STEPS": steps, "STEP_S": step_s, "SAVE_EVERY": SAVE_EVERY, "FINISH": str(finish)}
    code = "".join(f"{key} = {value!r}\n" for key, value in values.items()) + SMALL
    document = fleet.in_bucket(custom_job(name, code, gpus=gpus), name)
    return _training(server, submit(server, document), name)


def torch_job(server, job_id, steps, step_s, save_every=SAVE_EVERY):
    """The example as a package of AI Platform: a master and a worker."""
    fleet.trainshed(
        server, "ai-platform", "jobs", "submit", "training", job_id,
        "--config", EXAMPLES / "torch-resume" / "config.yaml",
        "--package-path", EXAMPLES / "torch-resume" / "trainer", "--module-name", "trainer.task",
        "--runtime-version", "2.11", "--python-version", "3.7", "--region", "us-central1",
        "--staging-bucket", f"gs://{BUCKET}", "--job-dir", f"gs://{BUCKET}/{job_id}",
        "--", *args(steps, step_s, save_every),
    )  # fmt: skip
    return _training(server, f"projects/demo-proj/jobs/{job_id}", job_id)


def keras_job(server, name, steps, step_s, folder):
    """The example as a package of Vertex: it saves where AIP_CHECKPOINT_DIR says."""
    package = upload(server, build_sdist(EXAMPLES / "keras-resume" / "trainer", folder))
    spec = {
        "executorImageUri": "registry.test/p/keras:1",
        "packageUris": [package],
        "pythonModule": "trainer.task",
        "args": [str(word) for word in args(steps, step_s)],
    }
    pool = {"machineSpec": MACHINE, "replicaCount": "1", "pythonPackageSpec": spec}
    output = {"outputUriPrefix": f"gs://{BUCKET}/{name}"}
    document = {
        "displayName": name,
        "jobSpec": {"workerPoolSpecs": [pool], "baseOutputDirectory": output},
    }
    return _training(server, submit(server, document), name)


def args(steps, step_s, save_every=SAVE_EVERY):
    """What the trainer is told; ``step_s`` is a pause after each step, in seconds."""
    return ("--steps", steps, "--save-every", save_every, "--step-seconds", step_s)


def upload(server, path):
    """Put a file into the bucket; its URI."""
    request = urllib.request.Request(
        f"{server.url}/upload/storage/v1/b/{BUCKET}/o?uploadType=media&name={path.name}",
        data=path.read_bytes(),
        headers={"Authorization": f"Bearer {server.token}"},
        method="POST",
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        return f"gs://{BUCKET}/{json.load(answer)['name']}"


def _training(server, name, folder):
    checkpoints = server.data_dir / "buckets" / BUCKET / folder / "checkpoints"
    return Training(server, name, checkpoints)
