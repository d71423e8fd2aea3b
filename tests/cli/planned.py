"""The job, its calibration and the answers that the tests of ``trainshed plan`` share."""

from planning.test_what_ifs import HOST, RUNS, TRAINING
from trainshed.planning.scaling.calibration_file import written as calibration_text
from trainshed.planning.scaling.fitting import calibrated

V100 = {"machineType": "n1-standard-32", "acceleratorType": "NVIDIA_TESLA_V100",
        "acceleratorCount": 8}  # fmt: skip
IMAGE = "us-docker.pkg.dev/vertex-ai/training/pytorch-gpu.1-13.py310:latest"
ML = {"trainingInput": {"scaleTier": "CUSTOM", "region": "us-central1",
                        "masterType": "n1-standard-32", "workerType": "n1-standard-32",
                        "workerCount": 3,
                        "masterConfig": {"acceleratorConfig": {"type": "NVIDIA_TESLA_V100",
                                                               "count": 8}},
                        "workerConfig": {"acceleratorConfig": {"type": "NVIDIA_TESLA_V100",
                                                               "count": 8}}}}  # fmt: skip


def job_document(workers=3, machine=V100, image="img"):
    container = {"imageUri": image}
    primary = {"machineSpec": V100, "replicaCount": 1, "containerSpec": container}
    worker_pool = {"machineSpec": machine, "replicaCount": workers, "containerSpec": container}
    return {"workerPoolSpecs": [primary, worker_pool]}


def refused_field(run):
    """The field of a refusal, which its sentence names as well."""
    assert run.code == 3, run.err
    refusal = run.json["refused"]
    assert run.err.startswith("error: ")
    assert f"{refusal['field']}: {refusal['message']}" in run.err
    assert refusal["accepted"] in run.err
    return refusal["field"]


def calibration_file(training=None, host=None, digest=""):
    calibration = calibrated(training or TRAINING, host or HOST, RUNS)
    return calibration_text(
        type(calibration)(
            training=calibration.training, host=calibration.host, runs=calibration.runs,
            fitted=calibration.fitted, trainer_digest=digest,
        )
    )  # fmt: skip
