"""Two projects, one machine, gcloud: alpha's job meets no trace of beta's, and both do well.

Without walls the same search meets it everywhere.
"""

import json
import secrets
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from conformance.gcloud import needs_gcloud
from e2e.support import FINAL, good
from isolation.calls import make_bucket, upload
from isolation.expected import LANDLOCK, NONE_ROOT, USERS, Mode
from isolation.scene import ALPHA, BETA, find_in_log, staged

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900), needs_gcloud]

SEARCHING = Path(__file__).with_name("searching.py")
NEVER = "none-proj"
REGION = "us-central1"
#: An ordinary job of beta's, whose word is in all that it has and does.
TRAINS = """\
import os, pathlib, sys, tempfile, time
word, job_dir = "WORD", sys.argv[sys.argv.index("--job-dir") + 1]
job_dir = pathlib.Path(job_dir.replace("gs:/", os.environ["TRAINSHED_BUCKETS"], 1))
job_dir.mkdir(parents=True, exist_ok=True)
memory = pathlib.Path("/dev/shm") / word
for folder in (job_dir, pathlib.Path(), pathlib.Path(tempfile.gettempdir())):
    (folder / word).write_text(word)
if "SHARED":
    memory.write_text(word)
print("the word is", word, flush=True)
while not (job_dir.parent / "go").exists():
    time.sleep(0.05)
memory.unlink(missing_ok=True)
(job_dir / "model").write_text(word)
"""
BASIC = (
    "--runtime-version=2.11", "--python-version=3.7", "--module-name=trainer.task",
    f"--region={REGION}",
)  # fmt: skip
#: Where beta's word must be met where nothing keeps a job from it.
EVERYWHERE = ("cmdline", "environ", "file", "name")


@dataclass
class Project:
    """A project with a bucket, and gcloud with a submitter's token of it."""

    scene: object
    gcloud: object
    name: str
    folder: Path

    @property
    def bucket(self):
        return f"{self.name.partition('-')[0]}-bucket"

    def submit(self, job, program, *words):
        """Have gcloud stage a package and submit it; the job's full name."""
        package = self.folder / self.name / "trainer"
        package.mkdir(parents=True)
        (package / "__init__.py").touch()
        (package / "task.py").write_text(program)
        self.gcloud(
            "ai-platform", "jobs", "submit", "training", job, "--package-path", package,
            "--staging-bucket", f"gs://{self.bucket}", "--job-dir", f"gs://{self.bucket}/out",
            *BASIC, "--", *words,
        ).ok()  # fmt: skip
        return f"projects/{self.name}/jobs/{job}"

    def create(self, display_name, container):
        """Have gcloud create a custom job of one container; its full name."""
        pool = {"machineSpec": {"machineType": "n1-standard-4"}, "replicaCount": 1}
        pool["containerSpec"] = {"imageUri": self.scene.mode.image, **container}
        config = self.folder / f"{self.name}.yaml"
        config.write_text(yaml.safe_dump({"workerPoolSpecs": [pool]}))
        done = self.gcloud(
            "ai", "custom-jobs", "create", f"--region={REGION}", "--display-name", display_name,
            "--config", config, "--format=value(name)",
        )  # fmt: skip
        return done.ok().stdout.strip()

    def result(self, path):
        """What a job has written to its bucket."""
        return (self.scene.data / "buckets" / self.bucket / path).read_text()

    def wait(self, job):
        state = self.scene.server.wait_for(f"/v1/{job}", {"SUCCEEDED", *FINAL})["state"]
        assert state in {"SUCCEEDED", "JOB_STATE_SUCCEEDED"}, self.scene.server.log_of(job)


@pytest.fixture
def project_of(warm, gcloud_at, tmp_path):
    """Make a project of a server."""

    def making(scene, name):
        wish = {"name": name, "project": name, "role": "submitter"}
        token = good(scene.server.call("POST", "/trainshed/v1/tokens", wish))["token"]
        env = gcloud_at(scene.server.url, token) | {"CLOUDSDK_CORE_PROJECT": name}
        project = Project(scene, lambda *argv: warm(argv, env, tmp_path), name, tmp_path)
        make_bucket(scene, name, project.bucket)
        return project

    return making


@dataclass
class Trace:
    """Beta's jobs, and the word that is in all that they have."""

    word: str
    jobs: tuple[str, str]


def begun(beta, mode: Mode):
    """Beta's jobs, which run until they are told to go on.

    Under Landlock, command lines and /dev/shm are for all to read: the word is not there.
    """
    word, is_kept = f"beta{secrets.token_hex(8)}", mode is not LANDLOCK
    program = TRAINS.replace("WORD", word).replace("SHARED", "yes" if is_kept else "")
    package = beta.submit("beta_job", program, *([word] if is_kept else []))
    upload(beta.scene, beta.bucket, "task.py", program.encode())
    container = {
        "command": ["python", f"/gcs/{beta.bucket}/task.py"],
        "args": ["--job-dir", f"/gcs/{beta.bucket}/custom", *([word] if is_kept else [])],
        "env": [{"name": "WORD", "value": word}],
    }
    jobs = (package, beta.create(word, container))
    for job in jobs:
        find_in_log(beta.scene, job, lambda log: word in log)
    return Trace(word, jobs)


def searched(alpha, trace, since):
    """What alpha's job tells of beta's word, of a word of its own, and of how far it looked."""
    own = f"alpha{secrets.token_hex(8)}"
    words = [("--word", word[:9], word[9:]) for word in (trace.word, own)]
    folder = alpha.scene.folder
    places = (folder, folder / "data", folder / "data" / "buckets", folder / "data" / "jobs")
    tops = (*places, folder / "cache", "/tmp", "/var/tmp", "/dev/shm", "/run", "/home", "/")  # noqa: S108
    argv = [text for top in tops for text in ("--place", str(top))]
    job = alpha.submit(
        "alpha_job", SEARCHING.read_text(), "--since", str(since), *sum(words, ()), *argv
    )
    alpha.wait(job)
    report = json.loads(alpha.result("out/told.json"))
    return report["met"][trace.word], report["met"][own], report["looked_at"]


def end(beta, trace):
    """Have beta's jobs go on to their ends."""
    upload(beta.scene, beta.bucket, "go", b"")
    for job in trace.jobs:
        beta.wait(job)
    for folder in ("out", "custom"):
        assert beta.result(f"{folder}/model") == trace.word


@pytest.mark.parametrize(
    "mode", [USERS, pytest.param(LANDLOCK, marks=pytest.mark.full)], ids=lambda mode: mode.name
)
def test_a_job_meets_no_trace_of_another_project_s(mode, project_of):
    since = time.time() - 5
    with staged(mode) as scene:
        alpha, beta = project_of(scene, ALPHA), project_of(scene, BETA)
        trace = begun(beta, mode)
        met, own, looked_at = searched(alpha, trace, since)
        check_gcloud_tells_nothing(alpha, trace)
        end(beta, trace)
    assert not met
    assert own, "what it wrote itself is met"
    assert min(looked_at.values()) > 0


@pytest.mark.full
def test_without_walls_it_meets_every_trace(project_of):
    since = time.time() - 5
    with staged(NONE_ROOT) as scene:
        alpha, beta = project_of(scene, ALPHA), project_of(scene, BETA)
        trace = begun(beta, NONE_ROOT)
        met, own, _ = searched(alpha, trace, since)
        end(beta, trace)
    assert {place.partition(" ")[0] for place in met} == set(EVERYWHERE)
    paths = "\n".join(met)
    for place in ("/buckets/", "/jobs/", "/cache/", "file /tmp/", "file /dev/shm/"):
        assert place in paths, paths
    assert own


# ---- what alpha's gcloud is told ----


def check_gcloud_tells_nothing(alpha, trace):
    """Beta's jobs are told like jobs that never were."""
    listing = alpha.gcloud("ai-platform", "jobs", "list", "--format=value(jobId)").ok()
    assert listing.stdout.split() == ["alpha_job"]
    listing = alpha.gcloud("ai", "custom-jobs", "list", f"--region={REGION}").ok()
    assert listing.stdout == ""
    number = trace.jobs[1].rpartition("/")[2]
    for words in verbs():
        foreign = ask_gcloud(alpha, words, BETA, "beta_job", number)
        assert foreign == ask_gcloud(alpha, words, NEVER, "none_job", "9" * len(number))
        assert foreign.code == 1


def verbs():
    """What is asked, with braces for the names."""
    for verb in ("describe", "stream-logs"):
        for project in (ALPHA, "{project}"):
            yield ("ai", "custom-jobs", verb, "{number}", "--region", REGION, "--project", project)
    for project in (ALPHA, "{project}"):
        yield ("ai-platform", "jobs", "describe", "{job}", "--project", project)
    # in the own project it looks for what is not there for ten seconds
    yield ("ai-platform", "jobs", "stream-logs", "{job}", "--project", "{project}")
    yield ("ai-platform", "jobs", "list", "--project", "{project}")
    yield ("ai", "custom-jobs", "list", "--region", REGION, "--project", "{project}")


def ask_gcloud(alpha, words, project, job, number):
    """How gcloud answers, without the names that it was given."""
    names = {"project": project, "job": job, "number": number}
    answer = alpha.gcloud(*(word.format(**names) for word in words))
    output = answer.stderr + answer.stdout
    for key, name in names.items():
        output = output.replace(name, f"<{key}>")
    return Reply(answer.code, output)


@dataclass
class Reply:
    code: int
    output: str
