"""Calls of the unmodified Vertex SDK, run by a Python that has it; prints one JSON object.

Every scenario is what a user's script does (docs/sources/vertex.md 4).  They run side by side,
for the SDK looks at a job only every five seconds.  Nothing of Trainshed is imported here.
"""

import concurrent.futures
import json
import pathlib
import subprocess
import sys
import tempfile
import traceback

from google.api_core import exceptions
from google.cloud import aiplatform
from sdk_connection import CREDENTIALS

PREBUILT = "us-docker.pkg.dev/vertex-ai/training/pytorch-cpu.1-13.py310:latest"
OWN_IMAGE = "registry.test/p/img:1"
SCRIPT = "import sys; print('script was told', sys.argv[1:])\n"


def pool(code="print('trained')", count=1):
    return {
        "machine_spec": {"machine_type": "n1-standard-4"},
        "replica_count": count,
        "container_spec": {"image_uri": OWN_IMAGE, "command": ["python", "-c"], "args": [code]},
    }


def run_succeeds(_):
    job = aiplatform.CustomJob("cj-run", [pool(), pool(count=2)], labels={"team": "a"})
    job.run(timeout=3600, restart_job_on_worker_restart=True)
    fetched = aiplatform.CustomJob.get(job.resource_name)
    return {
        "state": fetched.state.name,
        "ended": fetched.end_time is not None and fetched.start_time is not None,
        "labels": dict(fetched.labels),
        "error": fetched.error is not None and fetched.error.code != 0,
    }


def run_fails(_):
    job = aiplatform.CustomJob("cj-fail", [pool("import sys; sys.exit(3)")])
    try:
        job.run()
    except RuntimeError as error:
        return {"raised": str(error), "state": job.state.name}
    return {"raised": None}


def in_the_background(_):
    job = aiplatform.CustomJob("cj-async", [pool()])
    job.run(sync=False)
    job.wait_for_resource_creation()
    job.wait()
    return {"state": job.state.name}


def cancel_and_delete(_):
    job = aiplatform.CustomJob("cj-cancel", [pool("import time; time.sleep(600)")])
    job.submit(disable_retries=True)
    job.cancel()
    try:
        job._block_until_complete()
    except RuntimeError as error:
        raised = str(error)
    state = job.state.name
    code = job.error.code
    name = job.resource_name
    job.delete()
    try:
        aiplatform.CustomJob.get(name)
    except exceptions.NotFound:
        return {"state": state, "code": code, "raised": raised, "gone": True}
    return {"gone": False}


def lists(_):
    for place in range(3):
        aiplatform.CustomJob(f"cj-listed-{place}", [pool()]).submit()
    matches = aiplatform.CustomJob.list(filter='display_name="cj-listed-1"')
    ordered = aiplatform.CustomJob.list(
        filter='display_name:"cj-listed-*"', order_by="create_time desc"
    )
    return {
        "one": [job.display_name for job in matches],
        "all": [job.display_name for job in ordered],
    }


def from_local_script(folder):
    script = folder / "task.py"
    script.write_text(SCRIPT)
    job = aiplatform.CustomJob.from_local_script(
        "cj-script",
        script_path=str(script),
        container_uri=PREBUILT,
        args=["--x", "1"],
        environment_variables={"K": "V"},
        replica_count=2,
    )
    job.run()
    return {"state": job.state.name, "id": job.name}


def training_job(folder):
    script = folder / "train.py"
    script.write_text(SCRIPT)
    job = aiplatform.CustomTrainingJob(
        "ctj", script_path=str(script), container_uri=PREBUILT, labels={"l": "1"}
    )
    model = job.run(args=["--e", "2"], environment_variables={"Q": "1"})
    return {
        "state": job.state.name,
        "model": model,
        "backing": job._gca_resource.training_task_metadata is not None,
    }


def container_training_job(_):
    job = aiplatform.CustomContainerTrainingJob(
        "cctj", container_uri=OWN_IMAGE, command=["python", "-c", "import sys; print(sys.argv)"]
    )
    job.run(args=["--x", 3, 0.5], environment_variables={"A": "b"})
    return {"state": job.state.name}


#: A program that saves its model where it is told to.
SAVES = """
import os
from trainshed_trainer import local_path
folder = local_path(os.environ["AIP_MODEL_DIR"])
folder.mkdir(parents=True, exist_ok=True)
(folder / "model").write_text("weights")
"""


def no_model(_):
    """A training job that ends well and saves nothing, though a model was asked for."""
    job = aiplatform.CustomContainerTrainingJob(
        "without-model",
        container_uri=OWN_IMAGE,
        command=["python", "-c", "print('trained')"],
        model_serving_container_image_uri="us-docker.pkg.dev/vertex-ai/prediction/x:latest",
    )
    try:
        job.run(base_output_dir="gs://stage-bkt/without-model")
    except RuntimeError as error:
        return {"raised": str(error), "state": job.state.name}
    return {"raised": "", "state": job.state.name}


def trained_model(_):
    """The model of a training job: its folder is the one that the program was told to write to."""

    def job():
        return aiplatform.CustomContainerTrainingJob(
            "with-model",
            container_uri=OWN_IMAGE,
            command=["python", "-c", SAVES],
            model_serving_container_image_uri="us-docker.pkg.dev/vertex-ai/prediction/x:latest",
        )

    first = job()
    model = first.run(base_output_dir="gs://stage-bkt/with-model", model_display_name="trained")
    model.wait()
    again = job().run(base_output_dir="gs://stage-bkt/again", parent_model=model.resource_name)
    return {
        "uri": model.uri,
        "name": model.display_name,
        "same": again.resource_name == model.resource_name,
        "versions": [model.version_id, again.version_id],
        "newest": aiplatform.Model(model.resource_name).uri,
        "trained by": model.gca_resource.training_pipeline == first.resource_name,
    }


def uploaded_model(_):
    model = aiplatform.Model.upload(
        display_name="uploaded", artifact_uri="gs://stage-bkt/made", labels={"k": "v"},
        serving_container_image_uri="us-docker.pkg.dev/vertex-ai/prediction/x:latest",
    )  # fmt: skip
    listed = aiplatform.Model.list(filter='labels.k="v" AND display_name="uploaded"')
    result = {"uri": model.uri, "listed": [entry.uri for entry in listed]}
    model.delete()
    try:
        aiplatform.Model(model.resource_name)
    except exceptions.NotFound:
        return result | {"gone": True}
    return result


def not_here(_):
    """What each says that has no counterpart here."""
    attempts = {
        "endpoint": lambda: aiplatform.Endpoint.create("e"),
        "batch": lambda: aiplatform.BatchPredictionJob.create(
            "b", model_name="projects/demo-proj/locations/us-central1/models/1",
            instances_format="jsonl", predictions_format="jsonl",
            gcs_source="gs://stage-bkt/x", gcs_destination_prefix="gs://stage-bkt/y",
        ),
        "tensorboard": lambda: aiplatform.Tensorboard.create("t"),
    }  # fmt: skip
    return {name: error_text(attempt) for name, attempt in attempts.items()}


def error_text(attempt):
    try:
        attempt()
    except exceptions.GoogleAPICallError as error:
        return str(error)
    return "created"


def package_training_job(folder):
    """The package of another scenario's upload is run as a pipeline of its own."""
    source = folder / "pkg"
    (source / "trainer").mkdir(parents=True)
    (source / "trainer" / "__init__.py").touch()
    (source / "trainer" / "task.py").write_text(SCRIPT)
    (source / "setup.py").write_text(
        "import setuptools\nsetuptools.setup(name='trainer', version='0.1', packages=['trainer'])\n"
    )
    subprocess.run([sys.executable, "setup.py", "-q", "sdist"], cwd=source, check=True, timeout=120)
    from google.cloud import storage  # noqa: PLC0415  # only here

    archive = next((source / "dist").iterdir())
    storage.Client(project="demo-proj", credentials=CREDENTIALS).bucket("stage-bkt").blob(
        f"sdk/{archive.name}"
    ).upload_from_filename(str(archive))
    job = aiplatform.CustomPythonPackageTrainingJob(
        "cpptj",
        python_package_gcs_uri=f"gs://stage-bkt/sdk/{archive.name}",
        python_module_name="trainer.task",
        container_uri=PREBUILT,
    )
    job.run(args=["--y"])
    return {"state": job.state.name}


def failing_pipeline(_):
    job = aiplatform.CustomContainerTrainingJob(
        "cctj-fail", container_uri=OWN_IMAGE, command=["python", "-c", "import sys; sys.exit(4)"]
    )
    try:
        job.run()
    except RuntimeError as error:
        return {"raised": str(error), "state": job.state.name}
    return {"raised": None}


def refused(_):
    bad = pool()
    bad["machine_spec"] = {"machine_type": "n9-huge"}
    try:
        aiplatform.CustomJob("cj-bad", [bad]).submit()
    except exceptions.GoogleAPICallError as error:
        return {"kind": type(error).__name__, "text": str(error)}
    return {"kind": None}


HELPERS = {"pool", "error_text"}
SCENARIOS = {
    name: function
    for name, function in list(globals().items())
    if callable(function)
    and getattr(function, "__module__", "") == __name__
    and name not in HELPERS
}


def run_scenario(scenario, folder):
    try:
        folder.mkdir()
        return scenario(folder)
    except Exception:  # noqa: BLE001  # what a user would see is the result
        return {"crashed": traceback.format_exc()[-3000:]}


def main():
    with tempfile.TemporaryDirectory() as temporary:
        with concurrent.futures.ThreadPoolExecutor(len(SCENARIOS)) as pool_of_threads:
            running = {
                name: pool_of_threads.submit(run_scenario, scenario, pathlib.Path(temporary) / name)
                for name, scenario in SCENARIOS.items()
            }
        results = {name: future.result() for name, future in running.items()}
    sys.stdout.write("RESULTS " + json.dumps(results) + "\n")


if __name__ == "__main__":
    main()
