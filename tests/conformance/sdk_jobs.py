"""Every class of the unmodified Vertex SDK that makes a job, run by a Python that has the SDK.

Each case submits one job as a user's script does and returns at once; the test waits for the jobs
and reads what their programs have found.  Nothing of Trainshed is imported here.
"""

import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import traceback

from google.api_core import exceptions
from google.cloud import aiplatform
from google.cloud.aiplatform import hyperparameter_tuning as hpt
from google.cloud.aiplatform.preview import jobs as preview
from sdk_connection import ARGS, CREDENTIALS

PREBUILT = "us-docker.pkg.dev/vertex-ai/training/pytorch-cpu.1-13.py310:latest"
OWN_IMAGE = "registry.test/p/img:1"
#: What a program of the user's finds: its arguments, a variable, a requirement.
SCRIPT = """
import json, os, sys
from importlib import metadata
def version(name):
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
if metrics := os.environ.get("CLOUD_ML_HP_METRIC_FILE"):
    with open(metrics, "w") as file:
        file.write(json.dumps({"loss": 1.0, "trial": "1", "timestamp": 1.0, "global_step": "1"}))
print("FOUND " + json.dumps({
    "args": sys.argv[1:], "K": os.environ.get("K"), "required": version("required"),
    "model": os.environ.get("AIP_MODEL_DIR"), "trial": os.environ.get("CLOUD_ML_TRIAL_ID"),
}))
"""
WITH = {"args": ["--x", "1"], "environment_variables": {"K": "V"}}
PARAMETERS = {"lr": hpt.DoubleParameterSpec(min=0.1, max=0.2, scale="linear")}


def script_in(folder):
    path = folder / "task.py"
    path.write_text(SCRIPT)
    return str(path)


def pool(command):
    return {
        "machine_spec": {"machine_type": "n1-standard-4"},
        "replica_count": 1,
        "container_spec": {
            "image_uri": OWN_IMAGE,
            "command": command,
            "env": [{"name": "K", "value": "V"}],
        },
    }


def submitted(job, **more):
    job.submit(**more)
    return job.resource_name


def from_script(folder, image, name="script", **more):
    return aiplatform.CustomJob.from_local_script(
        name, script_path=script_in(folder), container_uri=image, requirements=["required"],
        **WITH, **more,
    )  # fmt: skip


def script_prebuilt(folder):
    return submitted(from_script(folder, PREBUILT))


def script_own_image(folder):
    return submitted(from_script(folder, OWN_IMAGE))


def script_own_image_two_replicas(folder):
    return submitted(from_script(folder, OWN_IMAGE, replica_count=2))


def script_with_flags(folder):
    job = from_script(
        folder, OWN_IMAGE, base_output_dir="gs://stage-bkt/flags", labels={"a": "b"},
        boot_disk_type="pd-standard", boot_disk_size_gb=200,
    )  # fmt: skip
    return submitted(
        job, timeout=3600, restart_job_on_worker_restart=True, disable_retries=False,
        enable_web_access=True, service_account="trainer@demo-proj.iam.gserviceaccount.com",
        network="projects/1/global/networks/n",
        tensorboard="projects/demo-proj/locations/us-central1/tensorboards/2",
    )  # fmt: skip


def installs_itself(_):
    """What people write into a command of their own."""
    lines = f"python3 -m pip install -q required && python3 - --x 1 <<'E'\n{SCRIPT}\nE"
    return submitted(aiplatform.CustomJob("installs", [pool(["bash", "-lc", lines])]))


def breaks_system_packages(_):
    install = "pip install -q --break-system-packages --user required"
    lines = f"{install} && python - --x 1 <<'E'\n{SCRIPT}\nE"
    return submitted(aiplatform.CustomJob("breaks", [pool(["sh", "-c", lines])]))


def tuning(folder, image):
    job = from_script(folder, image, name="trial")
    study = aiplatform.HyperparameterTuningJob(
        "tuning", job, metric_spec={"loss": "minimize"}, parameter_spec=PARAMETERS,
        max_trial_count=1, parallel_trial_count=1,
    )  # fmt: skip
    study.run(sync=False)
    study.wait_for_resource_creation()
    return study.resource_name


def tuning_prebuilt(folder):
    return tuning(folder, PREBUILT)


def tuning_own_image(folder):
    return tuning(folder, OWN_IMAGE)


def training_job(folder, image):
    job = aiplatform.CustomTrainingJob(
        "training", script_path=script_in(folder), container_uri=image, requirements=["required"]
    )
    return submitted(job, base_output_dir="gs://stage-bkt/training", **WITH)


def training_job_prebuilt(folder):
    return training_job(folder, PREBUILT)


def training_job_own_image(folder):
    return training_job(folder, OWN_IMAGE)


def container_training_job(_):
    lines = f"pip install -q --user required && python3 - $0 $@ <<'E'\n{SCRIPT}\nE"
    job = aiplatform.CustomContainerTrainingJob(
        "container", container_uri=OWN_IMAGE, command=["sh", "-c", lines]
    )
    return submitted(job, base_output_dir="gs://stage-bkt/container", **WITH)


def package_training_job(folder, image):
    uri = uploaded_package(folder)
    job = aiplatform.CustomPythonPackageTrainingJob(
        "package",
        python_package_gcs_uri=uri,
        python_module_name="trainer.task",
        container_uri=image,
    )
    job.run(sync=False, base_output_dir="gs://stage-bkt/package", **WITH)
    job.wait_for_resource_creation()
    return job.resource_name


def package_training_job_prebuilt(folder):
    return package_training_job(folder, PREBUILT)


def package_training_job_own_image(folder):
    return package_training_job(folder, OWN_IMAGE)


def preview_job(_):
    lines = f"pip install -q required && python - --x 1 <<'E'\n{SCRIPT}\nE"
    job = preview.CustomJob("preview", [pool(["sh", "-c", lines])])
    return submitted(job)


def uploaded_package(folder):
    (folder / "trainer").mkdir()
    (folder / "trainer/__init__.py").touch()
    (folder / "trainer/task.py").write_text(SCRIPT)
    (folder / "setup.py").write_text(
        "import setuptools\n"
        "setuptools.setup(name='trainer', version='0.1', packages=['trainer'],"
        " install_requires=['required'])\n"
    )
    subprocess.run([sys.executable, "setup.py", "-q", "sdist"], cwd=folder, check=True, timeout=120)
    from google.cloud import storage  # noqa: PLC0415  # only here

    archive = next((folder / "dist").iterdir())
    uri = f"sdk/{folder.name}/{archive.name}"
    client = storage.Client(project="demo-proj", credentials=CREDENTIALS)
    client.bucket("stage-bkt").blob(uri).upload_from_filename(str(archive))
    return f"gs://stage-bkt/{uri}"


def bound_to_a_persistent_resource(folder):
    return submitted(from_script(folder, PREBUILT), persistent_resource_id="pr")


CASES = (
    script_prebuilt, script_own_image, script_own_image_two_replicas, script_with_flags,
    installs_itself, breaks_system_packages, tuning_prebuilt, tuning_own_image,
    training_job_prebuilt, training_job_own_image, container_training_job,
    package_training_job_prebuilt, package_training_job_own_image, preview_job,
    bound_to_a_persistent_resource,
)  # fmt: skip


def automl(_):
    job = aiplatform.AutoMLTabularTrainingJob("automl", optimization_prediction_type="regression")
    data = aiplatform.TabularDataset.create("d", gcs_source="gs://stage-bkt/x.csv")
    job.run(data, target_column="y")


def persistent_resource(_):
    from google.cloud.aiplatform import persistent_resource as resources  # noqa: PLC0415

    resources.PersistentResource.create(
        persistent_resource_id="pr",
        resource_pools=[{"machine_spec": {"machine_type": "n1-standard-4"}, "replica_count": 1}],
    )


def autolog(folder):
    job = from_script(folder, PREBUILT, enable_autolog=True)
    job.submit(experiment="exp")


def experiment(_):
    aiplatform.CustomJob("exp", [pool(["true"])]).submit(experiment="exp")


REFUSED = (automl, persistent_resource, autolog, experiment)


def run_case(case, folder):
    try:
        folder.mkdir()
        return {"name": case(folder)}
    except exceptions.GoogleAPICallError as error:
        return {"refused": str(error)}
    except Exception:  # noqa: BLE001  # what a user would see is the result
        return {"crashed": traceback.format_exc()[-3000:]}


def main():
    with tempfile.TemporaryDirectory() as temporary:
        with concurrent.futures.ThreadPoolExecutor(4) as threads:
            running = {
                case.__name__: threads.submit(
                    run_case, case, pathlib.Path(temporary) / case.__name__
                )
                for case in (*CASES, *REFUSED)
                if not ARGS.cases or case.__name__ in ARGS.cases
            }
        results = {name: future.result() for name, future in running.items()}
    sys.stdout.write("RESULTS " + json.dumps(results) + "\n")
    sys.stdout.flush()
    os._exit(0)  # the SDK's own threads would wait for the jobs


if __name__ == "__main__":
    main()
