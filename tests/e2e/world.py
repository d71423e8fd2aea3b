"""Two projects on one server: bravo has one of each, and alpha is curious."""

import json
import urllib.error
import urllib.request
from dataclasses import dataclass

from e2e.support import IMAGE, custom_job, good, ml_job

#: Names of one length: what is told of them differs in nothing else.
OWN, FOREIGN, NEVER = "alpha-proj", "bravo-proj", "never-proj"
ENDLESS = "import time; print('the secret of bravo', flush=True); time.sleep(7200)"
CUSTOM_TASK = "gs://google-cloud-aiplatform/schema/trainingjob/definition/custom_task_1.0.0.yaml"


RUNNING = {"RUNNING", "JOB_STATE_RUNNING", "PIPELINE_STATE_RUNNING"}
CANCELLED = {"CANCELLED", "JOB_STATE_CANCELLED", "PIPELINE_STATE_CANCELLED"}


@dataclass
class World:
    """The server, the names of bravo's things, and a token of each kind."""

    server: object
    ids: dict
    tokens: dict
    upload: str

    def names(self, project, *, real, row_path=""):
        """What fills the braces of a path: bravo's things, or things that never were."""
        kind = "ml" if "/jobs/" in row_path or row_path.endswith("/jobs") else "vertex"
        of_bravo = {
            "job": self.ids["ml"] if kind == "ml" else self.ids["customJobs"],
            "pipeline": self.ids["trainingPipelines"],
            "operation": self.ids["operations"],
            "bucket": "bravo-bucket",
            "name": "secret.txt",
            "upload": self.upload,
        }
        ids = of_bravo if real else {key: ghost_of(value) for key, value in of_bravo.items()}
        fixed = {"location": "us-central1", "other": "alpha-bucket"}
        return {**ids, **fixed, "model": "1", "tensorboard": "1", "project": project}

    def call(self, verb, path, token, document=None):
        """One request: (status, text)."""
        data = None if document is None else json.dumps(document).encode()
        headers = {"Authorization": f"Bearer {self.tokens[token]}"} if token else {}
        request = urllib.request.Request(
            self.server.url + path,
            method=verb,
            data=data,
            headers={**headers, "Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def all_of_bravo(self):
        """What an administrator sees of bravo now."""
        parent = f"/v1/projects/{FOREIGN}/locations/us-central1"
        paths = (
            f"/v1/projects/{FOREIGN}/jobs",
            f"{parent}/customJobs",
            f"{parent}/trainingPipelines",
            f"{parent}/operations/{self.ids['operations']}",
            f"/storage/v1/b?project={FOREIGN}",
            "/storage/v1/b/bravo-bucket/o",
            "/download/storage/v1/b/bravo-bucket/o/secret.txt?alt=media",
            f"/storage/v1/b?project={OWN}",
            "/storage/v1/b/alpha-bucket/o",
        )
        return {path: self.call("GET", path, "root") for path in paths}


def ghost_of(name):
    """A name of the same kind and length that nothing has."""
    if name.isdecimal():
        return "9" + "".join(str(9 - int(digit)) for digit in name[1:])
    return "none" + name[4:]


def mask_names(answer, names):
    """What was told, without the names that the caller gave."""
    status, text = answer
    for key, name in sorted(names.items(), key=lambda pair: -len(pair[1])):
        text = text.replace(name, f"<{key}>")
    return status, text


def body_of(verb, path):
    """A body that the row would take."""
    if verb in {"GET", "DELETE"}:
        return None
    if verb == "POST" and path.endswith("/jobs"):
        return ml_job("new_one")
    if verb == "POST" and path.endswith("/customJobs"):
        return custom_job("new one")
    if path.endswith("/storage/v1/b"):
        return {"name": "another-bucket"}
    return {}


def build(server):
    def create(path, document):
        return good(server.call("POST", path, document))

    parent = f"/v1/projects/{FOREIGN}/locations/us-central1"
    create(f"/v1/projects/{FOREIGN}/jobs", ml_job("bravo_job", ENDLESS))
    job = create(f"{parent}/customJobs", custom_job("bravo's", ENDLESS))["name"]
    doomed = create(f"{parent}/customJobs", custom_job("deleted"))["name"]
    pipeline = create(
        f"{parent}/trainingPipelines",
        {
            "displayName": "bravo's",
            "trainingTaskDefinition": CUSTOM_TASK,
            "trainingTaskInputs": pipeline_inputs(),
        },
    )
    server.wait_for(f"/v1/{doomed}", {"JOB_STATE_SUCCEEDED"})
    operation = good(server.call("DELETE", f"/v1/{doomed}"))["name"]
    for project in (OWN, FOREIGN):
        name = f"{project.partition('-')[0]}-bucket"
        create(f"/storage/v1/b?project={project}", {"name": name})
    world = World(
        server=server,
        ids={
            "ml": "bravo_job",
            "customJobs": last(job),
            "trainingPipelines": last(pipeline["name"]),
            "operations": last(operation),
        },
        tokens=make_tokens(server),
        upload="",
    )
    upload = "/upload/storage/v1/b/bravo-bucket/o?uploadType="
    assert world.call("POST", f"{upload}media&name=secret.txt", "root", {"a": 1})[0] == 200
    world.upload = begin_upload(world, f"{upload}resumable&name=half.txt")
    for name in running_names(world):
        server.wait_for(f"/v1/{name}", RUNNING)
    return world


def running_names(world):
    parent = f"projects/{FOREIGN}/locations/us-central1"
    return (
        f"projects/{FOREIGN}/jobs/{world.ids['ml']}",
        f"{parent}/customJobs/{world.ids['customJobs']}",
        f"{parent}/trainingPipelines/{world.ids['trainingPipelines']}",
    )


def end(world):
    """Cancel what runs."""
    for name in running_names(world):
        good(world.server.call("POST", f"/v1/{name}:cancel", {}))
        world.server.wait_for(f"/v1/{name}", CANCELLED)


def check_strangers(world, verb, path, body):
    """Nobody is told 403, for clients hide a 401's words; a revoked token is told 401."""
    for token, status, word in ((None, 403, "credentials"), ("revoked", 401, "does not know")):
        code, text = world.call(verb, path, token, body)
        assert code == status, text
        assert word in text


def pipeline_inputs():
    container = {"image_uri": IMAGE, "command": ["python", "-c"], "args": [ENDLESS]}
    machine = {"machine_type": "n1-standard-4"}
    pool = {"machine_spec": machine, "replica_count": 1, "container_spec": container}
    return {"worker_pool_specs": [pool]}


def make_tokens(server):
    def token(project, role):
        document = {"name": f"{project}-{role}", "project": project, "role": role}
        return good(server.call("POST", "/trainshed/v1/tokens", document))

    path = f"/trainshed/v1/projects/{OWN}/bucketTokens"
    wish = {"bucket": "alpha-bucket", "expires": "12h"}  # a long run must not outlive it
    revoked = token(FOREIGN, "admin")
    good(server.call("DELETE", f"/trainshed/v1/tokens/{revoked['id']}"))
    return {
        "root": server.token,
        "alpha": token(OWN, "admin")["token"],
        "alpha-bucket": good(server.call("POST", path, wish))["token"],
        "bravo-viewer": token(FOREIGN, "viewer")["token"],
        "bravo-submitter": token(FOREIGN, "submitter")["token"],
        "bravo-admin": token(FOREIGN, "admin")["token"],
        "any-submitter": token("*", "submitter")["token"],
        "revoked": revoked["token"],
    }


def begin_upload(world, path):
    """The id of a resumable upload that has begun."""
    request = urllib.request.Request(
        world.server.url + path,
        method="POST",
        data=b"{}",
        headers={"Authorization": f"Bearer {world.tokens['root']}"},
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        return answer.headers["Location"].partition("upload_id=")[2].partition("&")[0]


def last(name):
    return name.rpartition("/")[2]
