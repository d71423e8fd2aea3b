"""Train on handwritten digits with JAX, on as many processes as the environment says.

Every process holds the same weights and its share of each batch.  The step is written as if there
were one machine: because the batch is spread over the mesh and the weights are not, the compiler
adds up the gradients of all processes by itself.
"""

import argparse
import json
import os
import time
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec
from sklearn.datasets import load_digits

TEST_IMAGES = 357
LAYERS = (64, 128, 64, 10)
MOMENTUM = 0.9

#: AI Platform Training gives --job-dir, Vertex AI a variable; alone, results lie beside the code.
JOB_DIR = os.environ.get("AIP_CHECKPOINT_DIR", "runs")

Weights = list[tuple[jax.Array, jax.Array]]


def main() -> None:
    """Train, and let process 0 tell how it went."""
    args = arguments()
    jax.config.update("jax_enable_x64", True)  # rounding differences stay too small to see
    join()
    print(f"process {jax.process_index()} of {jax.process_count()}", flush=True)
    mesh = jax.make_mesh((jax.device_count(),), ("batch",))
    weights, losses = train(args, NamedSharding(mesh, PartitionSpec("batch")))
    if jax.process_index() == 0:
        finish(args, jax.device_get(weights), losses)
    if jax.process_count() > 1:
        jax.distributed.shutdown()


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="trainer.task")
    parser.add_argument("--job-dir", type=folder, default=JOB_DIR, help="where results go")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--batch-size", type=int, default=48, help="of all processes together")
    parser.add_argument("--learning-rate", type=float, default=0.05)
    return parser.parse_args()


def folder(text: str) -> Path:
    """Name the folder of a gs:// directory: buckets are mounted, on Vertex AI at /gcs."""
    return Path(text.replace("gs:/", os.environ.get("TRAINSHED_BUCKETS", "/gcs"), 1))


def join() -> None:
    """Meet the other processes.

    JAX reads JAX_COORDINATOR_ADDRESS by itself; it does not read the other two.
    """
    count = int(os.environ.get("JAX_NUM_PROCESSES", "1"))
    if count > 1:
        jax.distributed.initialize(
            num_processes=count, process_id=int(os.environ["JAX_PROCESS_ID"])
        )


def train(args: argparse.Namespace, spread: NamedSharding) -> tuple[Weights, list[float]]:
    """Give the weights, the same on every process, and the mean loss of each epoch."""
    images, labels = digits()[0]
    shares, own = jax.process_count(), jax.process_index()
    if len(labels) % args.batch_size or args.batch_size % shares:
        raise SystemExit(
            f"batches should divide {len(labels)} images, and {shares} should divide them"
        )
    everywhere = NamedSharding(spread.mesh, PartitionSpec())
    weights = jax.device_put(first_weights(), everywhere)
    state = weights, jax.tree.map(jnp.zeros_like, weights)
    losses = []
    for epoch in range(1, args.epochs + 1):
        started, total = time.monotonic(), 0.0
        order = np.random.default_rng(epoch).permutation(len(labels))
        for batch in np.split(order, len(order) // args.batch_size):
            share = batch.reshape(shares, -1)[own]
            parts = (images[share], labels[share])
            local = [jax.make_array_from_process_local_data(spread, part) for part in parts]
            state, loss = step(state, *local, args.learning_rate)
            total += float(loss) * len(batch)
        losses.append(total / len(order))
        if own == 0:
            seconds = time.monotonic() - started
            line = f"epoch {epoch}/{args.epochs}  loss {losses[-1]:.4f}  {seconds:.2f} s"
            print(line, flush=True)
    return state[0], losses


@partial(jax.jit, donate_argnums=0)
def step(state: Any, images: jax.Array, labels: jax.Array, learning_rate: float) -> Any:
    """Learn from one global batch: gradient descent with momentum."""
    weights, speed = state
    loss, gradients = jax.value_and_grad(mean_loss)(weights, images, labels)
    speed = jax.tree.map(lambda s, g: MOMENTUM * s + g, speed, gradients)
    weights = jax.tree.map(lambda w, s: w - learning_rate * s, weights, speed)
    return (weights, speed), loss


def mean_loss(weights: Weights, images: jax.Array, labels: jax.Array) -> jax.Array:
    """Give the mean cross-entropy of a batch."""
    scores = jax.nn.log_softmax(logits(weights, images))
    return -jnp.take_along_axis(scores, labels[:, None], axis=1).mean()


def logits(weights: Weights, images: Any) -> jax.Array:
    """Run images through the network."""
    for number, (matrix, bias) in enumerate(weights):
        images = images @ matrix + bias
        if number < len(weights) - 1:
            images = jax.nn.relu(images)
    return images


def first_weights() -> list[tuple[np.ndarray, np.ndarray]]:
    """Give every process the same weights to begin with."""
    random = np.random.default_rng(1)
    shapes = pairwise(LAYERS)
    return [(random.normal(0, (2 / n) ** 0.5, (n, m)), np.zeros(m)) for n, m in shapes]


def digits() -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """Give (images, labels) to train on, 1,440 of them, and to test on, the other 357."""
    dataset = load_digits()
    images = dataset.data / 16 - 0.5
    order = np.random.default_rng(7).permutation(len(images))
    test, rest = order[:TEST_IMAGES], order[TEST_IMAGES:]
    return (images[rest], dataset.target[rest]), (images[test], dataset.target[test])


def finish(args: argparse.Namespace, weights: Weights, losses: list[float]) -> None:
    """Measure the test accuracy and write the result down."""
    images, labels = digits()[1]
    accuracy = float((np.asarray(logits(weights, images)).argmax(axis=1) == labels).mean())
    args.job_dir.mkdir(parents=True, exist_ok=True)
    result = {"accuracy": accuracy, "losses": losses, "processes": jax.process_count()}
    (args.job_dir / "result.json").write_text(json.dumps(result) + "\n")
    print(f"test accuracy {accuracy:.4f} after {args.epochs} epochs", flush=True)


if __name__ == "__main__":
    main()
