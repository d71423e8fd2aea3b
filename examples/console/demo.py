"""A server to look at in a browser: jobs of every state, a study, and a real training job.

    python examples/console/demo.py FOLDER [--end]

The jobs are on nodes that do not exist (``engine/simulated_nodes.py``); torch-ddp trains on this
machine.  The last lines are a link that signs a browser in.  The server runs until Ctrl+C; with
``--end`` it ends as soon as all jobs are there.
"""

import argparse
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from trainshed.client.faults import ServerRefusal, Unreachable
from trainshed.client.http import Server

HERE = Path(__file__).parent
BIN = Path(sys.executable).parent
PROJECT, LOCATION = "demo", "us-central1"
PARENT = f"/v1/projects/{PROJECT}/locations/{LOCATION}"
TRAINING = "ddp_1"
READY_S_MAX = 180.0
#: (engine, type of GPU) of the groups of simulated nodes.
NODES = ("nodes", "NVIDIA_TESLA_T4")
TUNING = ("tuning", "NVIDIA_TESLA_T4")
SPARE = ("spare", "NVIDIA_TESLA_T4")
A100 = ("a100", "NVIDIA_TESLA_A100")
CLUSTER = ("cluster", "NVIDIA_TESLA_V100")
USERS = ("ada", "grace", "linus")
#: Those that ended, by their arguments: (number, name, arguments).
ENDED = (
    (130, "census", ("runs=0.1",)),
    (18, "finetune", ("runs=0.1", "exit=1")),
    (1, "loss-is-nan", ("runs=0.1", "exit=1", "log=nan")),
    (1, "long-log", ("runs=0.1", "log=long")),
)
CANCELLED = 12
RUNNING = 12
LIVE = 3
WAITING = 14
ENQUEUED = 4
PREPARING = 3


def main() -> int:
    """Start the server, fill it and print the link."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--end", action="store_true", help="end when all jobs are there")
    parser.add_argument("--port", default="0")
    args = parser.parse_args()
    folder = args.folder.absolute()
    if folder.exists() and any(folder.iterdir()) and not (folder / "serve.log").exists():
        sys.exit(f"{folder} is not empty, and no demo has made it: name another folder")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    began = time.monotonic()
    print("starting a server and filling it with jobs: a minute or two", flush=True)
    with serving(folder, args.port) as server:
        fill(server, folder)
        counts = server.call("GET", f"/trainshed/v1/projects/{PROJECT}/jobs")["counts"]
        states = ", ".join(f"{count} {state}" for state, count in sorted(counts.items()))
        print(f"ready in {time.monotonic() - began:.0f} s; jobs that have not ended: {states}")
        print_link(folder)
        if not args.end:
            print("the server runs until Ctrl+C; another link: ", end="")
            print(f"TRAINSHED_DATA_DIR={folder} {BIN / 'trainshed'} console", flush=True)
            signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
            with contextlib.suppress(KeyboardInterrupt):
                signal.pause()
    return 0


@contextlib.contextmanager
def serving(folder: Path, port: str) -> Iterator[Server]:
    """Start the server, and end it at the end."""
    config = (HERE / "config.toml").read_text().replace("PYTHON", sys.executable)
    (folder / "config.toml").write_text(config)
    engine = str(HERE / "engine")
    path = os.pathsep.join(filter(None, (engine, os.environ.get("PYTHONPATH"))))
    with (folder / "serve.log").open("wb") as log:
        child = subprocess.Popen(
            [BIN / "trainshed", "serve", "--data-dir", folder, "--port", port, "--grpc-port", "0"],
            stdout=log,
            stderr=log,
            env={**os.environ, "PYTHONPATH": path},
            start_new_session=True,
        )
    try:
        server = wait_for_server(child, folder)
        try:
            yield server
        finally:
            end_training(server)
    finally:
        child.terminate()
        child.wait()


def wait_for_server(child: subprocess.Popen[bytes], folder: Path) -> Server:
    """Return the server when it answers."""
    file, deadline = folder / "server.json", time.monotonic() + READY_S_MAX
    while time.monotonic() < deadline and child.poll() is None:
        if file.exists():
            token = (folder / "admin-token").read_text().strip()
            server = Server(url=json.loads(file.read_text())["url"], token=token)
            if server.answers():
                return server
        time.sleep(0.1)
    sys.exit(f"the server did not start; its log:\n{(folder / 'serve.log').read_text()}")


def end_training(server: Server) -> None:
    """Cancel the job that has processes on this machine, and wait until it has ended."""
    path, deadline = f"/v1/projects/{PROJECT}/jobs/{TRAINING}", time.monotonic() + READY_S_MAX
    with contextlib.suppress(ServerRefusal, Unreachable):
        server.call("POST", f"{path}:cancel", {})
        while "endTime" not in server.call("GET", path) and time.monotonic() < deadline:
            time.sleep(0.2)


def fill(server: Server, folder: Path) -> None:
    """Submit all jobs, and wait until each has the state that it is there for."""
    train = subprocess.Popen(
        torch_ddp(folder),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=client_env(folder),
    )
    users = [Server(url=server.url, token=token_of(server, user)) for user in USERS]
    create_study(users[0])
    jobs = [
        job(f"{name}-{number:03}", NODES, words)
        for count, name, words in ENDED
        for number in range(count)
    ]
    names = [submit(users[number % len(users)], one) for number, one in enumerate(jobs)]
    wait_for_state(server, names[-1], "SUCCEEDED")
    occupy(server, users)
    _, problem = train.communicate()
    if train.returncode:
        sys.exit(f"cannot submit torch-ddp: {problem}")


def occupy(server: Server, users: Sequence[Server]) -> None:
    """Submit the jobs that stay as they are."""
    ada, grace, linus = users
    for number in range(PREPARING):
        submit(grace, job(f"starting-{number}", NODES, ("ready=86400",)))
    for number in range(RUNNING):
        words = ("log=live",) if number < LIVE else ()
        submit(ada, job(f"resnet-{number:02}", NODES, words, gpus=2))
    restarting = submit(linus, job("moves-on", A100, ("log=live", "notice=86400"), gpus=4))
    cancelling = submit(grace, job("ignores-its-notice", A100, ("notice=86400",)))
    node = wait_for_state(server, restarting, "RUNNING")["replicas"][0]["node"]
    wait_for_state(server, cancelling, "RUNNING")
    for number in range(ENQUEUED):
        submit(linus, job(f"handed-over-{number}", CLUSTER, ()))
    for number in range(WAITING):
        name, workers = f"bert-{number:02}", 1 + number % 3
        submit(users[number % 3], job(name, NODES, (), gpus=4, workers=workers))
    submit(ada, job("over-quota", A100, (), gpus=4))
    wait_for_state(server, submit(grace, job("half-of-a-node", SPARE, (), gpus=4)), "RUNNING")
    submit(ada, job("too-many-workers", SPARE, (), gpus=2, workers=3))
    cancelled = [submit(grace, job(f"mistake-{number}", NODES, ())) for number in range(CANCELLED)]
    for name in (*cancelled, cancelling):
        server.call("POST", f"/v1/{name}:cancel", {})
    server.call("POST", f"/trainshed/v1/nodes/a100/{node}:maintain", {"notice": "3600s"})
    wait_for_state(server, restarting, "RESTARTING")
    wait_for_state(server, cancelling, "CANCELLING")


def wait_for_state(server: Server, name: str, state: str) -> dict[str, Any]:
    """Wait until a job is in a state; return its summary."""
    path = f"/trainshed/v1/projects/{PROJECT}/jobs/{name.rpartition('/')[2]}"
    deadline = time.monotonic() + READY_S_MAX
    while (summary := server.call("GET", path))["state"] != state:
        if time.monotonic() > deadline:
            sys.exit(f"{name} must become {state}, and is {summary['state']}")
        time.sleep(0.2)
    return dict(summary)


def job(
    name: str,
    group: tuple[str, str],
    words: Sequence[str],
    *,
    gpus: int = 1,
    workers: int = 0,
) -> dict[str, Any]:
    """Return a custom job for the nodes of a group."""
    engine, gpu = group
    pool = {
        "machineSpec": machine(gpu, gpus),
        "replicaCount": "1",
        "containerSpec": {
            "imageUri": "demo.example/team/trainer:1",
            "command": ["python", "-m", "trainer.task"],
            "args": [f"--{word}" for word in words],
        },
    }
    pools = [pool, {**pool, "replicaCount": str(workers)}] if workers else [pool]
    labels = {"trainshed-engine": engine, "team": name.partition("-")[0]}
    return {"displayName": name, "labels": labels, "jobSpec": {"workerPoolSpecs": pools}}


def machine(gpu: str, gpus: int) -> dict[str, Any]:
    """Return a machine with GPUs."""
    if gpu == A100[1]:
        kind = f"a2-highgpu-{gpus}g"
        return {"machineType": kind, "acceleratorType": gpu, "acceleratorCount": gpus}
    return {"machineType": "n1-standard-8", "acceleratorType": gpu, "acceleratorCount": gpus}


def submit(server: Server, document: dict[str, Any]) -> str:
    """Submit a job; return its name."""
    return str(server.call("POST", f"{PARENT}/customJobs", document)["name"])


def create_study(server: Server) -> None:
    """Create a study of simulated trials."""
    trial = job("trial", TUNING, ())["jobSpec"]
    server.call(
        "POST",
        f"{PARENT}/hyperparameterTuningJobs",
        {
            "displayName": "digits",
            "labels": {"trainshed-engine": TUNING[0]},
            "maxTrialCount": 40,
            "parallelTrialCount": 8,
            "studySpec": {
                "metrics": [{"metricId": "accuracy", "goal": "MAXIMIZE"}],
                "parameters": [
                    {
                        "parameterId": "lr",
                        "scaleType": "UNIT_LOG_SCALE",
                        "doubleValueSpec": {"minValue": 0.0001, "maxValue": 1.0},
                    },
                    {
                        "parameterId": "width",
                        "scaleType": "UNIT_LINEAR_SCALE",
                        "integerValueSpec": {"minValue": 8, "maxValue": 256},
                    },
                ],
            },
            "trialJobSpec": trial,
        },
    )


def torch_ddp(folder: Path) -> list[str]:
    """Return the command that submits the torch-ddp example, after its bucket."""
    trainshed = str(BIN / "trainshed")
    env = client_env(folder)
    subprocess.run(
        [trainshed, "buckets", "create", "my-bucket"],
        check=True,
        env=env,
        stdout=subprocess.DEVNULL,
    )
    example = HERE.parent / "torch-ddp"
    return [
        trainshed, "ai-platform", "jobs", "submit", "training", TRAINING,
        "--config", str(example / "config.yaml"), "--runtime-version", "2.11",
        "--python-version", "3.7", "--module-name", "trainer.task",
        "--package-path", str(example / "trainer"), "--staging-bucket", "gs://my-bucket",
        "--job-dir", "gs://my-bucket/out", "--labels", "trainshed-engine=local",
        "--", "--epochs", "5",
    ]  # fmt: skip


def client_env(folder: Path) -> dict[str, str]:
    """Return the environment of commands that call the server."""
    return {**os.environ, "TRAINSHED_DATA_DIR": str(folder), "CLOUDSDK_CORE_PROJECT": PROJECT}


def token_of(server: Server, user: str) -> str:
    """Create a token for a user."""
    document = {"name": user, "project": PROJECT, "role": "submitter"}
    return str(server.call("POST", "/trainshed/v1/tokens", document)["token"])


def print_link(folder: Path) -> None:
    """Print a link that signs a browser in."""
    subprocess.run([BIN / "trainshed", "console"], check=True, env=client_env(folder))


if __name__ == "__main__":
    sys.exit(main())
