"""Makes the jobs that the benchmark of the service submits, as Google's clients send them."""

from typing import Final

from benchmarks.harness import Json

PROJECT: Final = "benchmark"
BUCKET: Final = "benchmark-bucket"
LOCATION: Final = "us-central1"
T4: Final = "NVIDIA_TESLA_T4"
IMAGE: Final = "us-docker.pkg.dev/vertex-ai/training/pytorch-gpu.2-4.py310:latest"
CPU_IMAGE: Final = "us-docker.pkg.dev/vertex-ai/training/pytorch-cpu.2-4.py310:latest"

VERTEX: Final = f"/v1/projects/{PROJECT}/locations/{LOCATION}/customJobs"
ML: Final = f"/v1/projects/{PROJECT}/jobs"


def pool(count: int, *, gpus: int, args: tuple[str, ...] = ()) -> Json:
    """Return a worker pool."""
    machine: Json = {"machineType": "n1-standard-8"}
    if gpus:
        machine |= {"acceleratorType": T4, "acceleratorCount": gpus}
    command = ["python", "-m", "trainer.task"]
    return {
        "machineSpec": machine,
        "replicaCount": str(count),
        "containerSpec": {"imageUri": IMAGE, "command": command, "args": list(args)},
    }


def simple(number: int) -> Json:
    """Return a job of one replica with a GPU."""
    spec = {"workerPoolSpecs": [pool(1, gpus=1, args=("--epochs=3",))]}
    return {"displayName": f"simple-{number}", "jobSpec": spec}


def three_pools(number: int) -> Json:
    """Return a job of three pools, with labels, limits and an output directory."""
    args = ("--epochs=10", "--batch-size=64", f"--seed={number}")
    return {
        "displayName": f"three-pools-{number}",
        "labels": {"team": "vision", "experiment": "resnet50"},
        "jobSpec": {
            "workerPoolSpecs": [
                pool(1, gpus=1, args=args),
                pool(1, gpus=1, args=args),
                pool(1, gpus=0, args=args),
            ],
            "scheduling": {"timeout": "86400s", "restartJobOnWorkerRestart": True},
            "baseOutputDirectory": {"outputUriPrefix": f"gs://{BUCKET}/runs"},
        },
    }


def gang(replicas: int) -> Json:
    """Return an ml v1 job of high priority on CPU machines, which are free."""
    program = {"imageUri": IMAGE, "containerCommand": ["python", "-m", "trainer.task"]}
    return {
        "jobId": f"gang_{replicas}",
        "trainingInput": {
            "scaleTier": "CUSTOM",
            "region": LOCATION,
            "masterType": "n1-standard-8",
            "workerType": "n1-standard-8",
            "workerCount": str(replicas - 1),
            "masterConfig": program,
            "workerConfig": program,
            "scheduling": {"priority": 1000},
        },
    }


def say(number: int) -> Json:
    """Return a job whose program prints one line and ends."""
    program = {"imageUri": CPU_IMAGE, "command": ["python", "-c", "print('here')"]}
    one = {"machineSpec": {"machineType": "n1-standard-4"}, "containerSpec": program}
    spec = {"workerPoolSpecs": [{**one, "replicaCount": "1"}]}
    return {"displayName": f"say-{number}", "jobSpec": spec}


def bodies(number: int) -> Json:
    """Return the job with a number: three pools if it is odd, otherwise one replica."""
    return three_pools(number) if number % 2 else simple(number)
