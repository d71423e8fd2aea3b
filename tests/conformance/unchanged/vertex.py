"""The README's programs for Vertex AI, as they run at Google: nothing names a server.

Makes the bucket that its first argument names, and prints one JSON object.  The next arguments are
the runs, as ``grpc.custom_job``: a transport and a program.  The programs of a transport run side
by side, for the SDK looks at a job every five seconds.
"""

import concurrent.futures
import json
import os
import pathlib
import sys
import tempfile

from google.cloud import aiplatform, storage
from google.cloud.aiplatform import hyperparameter_tuning as hpt

BUCKET, *RUNS = sys.argv[1:]
IMAGE = "us-docker.pkg.dev/vertex-ai/training/sklearn-cpu.1-0:latest"
TRAINER = """
import hypertune, sys
x = float(sys.argv[-1].rpartition("=")[2])
hypertune.HyperTune().report_hyperparameter_tuning_metric("accuracy", x)
"""
MODEL = """
import os
os.makedirs(os.environ["AIP_MODEL_DIR"].replace("gs://", "/gcs/"), exist_ok=True)
open(os.environ["AIP_MODEL_DIR"].replace("gs://", "/gcs/") + "model.txt", "w").write("weights")
"""


def custom_job(script):
    script.write_text("print('trained')\n")
    job = aiplatform.CustomJob.from_local_script(
        "mine", script_path=str(script), container_uri=IMAGE
    )
    job.run()
    return {"state": job.state.name}


def tuning_job(_):
    pool = {
        "machine_spec": {"machine_type": "n1-standard-4"},
        "replica_count": 1,
        "container_spec": {"image_uri": IMAGE, "command": ["python", "-c", TRAINER]},
    }
    job = aiplatform.HyperparameterTuningJob(
        "tune",
        aiplatform.CustomJob("inner", [pool]),
        metric_spec={"accuracy": "maximize"},
        parameter_spec={"x": hpt.DoubleParameterSpec(min=0.1, max=0.9, scale="linear")},
        max_trial_count=2,
        parallel_trial_count=2,
    )
    job.run()
    return {"state": job.state.name, "trials": [trial.state.name for trial in job.trials]}


def training_pipeline(script):
    script.write_text(MODEL)
    job = aiplatform.CustomTrainingJob(
        "pipeline",
        script_path=str(script),
        container_uri=IMAGE,
        model_serving_container_image_uri="us-docker.pkg.dev/vertex-ai/prediction/x:latest",
    )
    model = job.run(base_output_dir=f"gs://{BUCKET}/{script.stem}", model_display_name="trained")
    return {"state": job.state.name, "model": model.uri}


PROGRAMS = {program.__name__: program for program in (custom_job, tuning_job, training_pipeline)}


def run_all(transport):
    aiplatform.init(
        project="demo-proj",
        location="us-central1",
        staging_bucket=f"gs://{BUCKET}",
        api_transport=transport,
    )
    names = [run.partition(".")[2] for run in RUNS if run.startswith(transport)]
    folder = pathlib.Path(tempfile.mkdtemp())
    with concurrent.futures.ThreadPoolExecutor() as threads:
        running = {
            name: threads.submit(PROGRAMS[name], folder / f"{transport}_{name}.py")
            for name in names
        }
    return {name: future.result() for name, future in running.items()}


storage.Client(project="demo-proj").create_bucket(BUCKET)
results = {transport: run_all(transport) for transport in ("grpc", "rest")}
names = [blob.name for blob in storage.Client(project="demo-proj").list_blobs(BUCKET)]
results["stored"] = [name for name in names if name.endswith("model.txt")]
results["emulator"] = os.environ.get("STORAGE_EMULATOR_HOST")
sys.stdout.write("RESULTS " + json.dumps(results) + "\n")
