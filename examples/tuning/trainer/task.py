"""Train a small network on handwritten digits, with the arguments that a trial gets.

Tuning asks three things of a program: that what is tuned are arguments, that it reports how good
it is, and that its results go where it is told, since every trial is told another place.
"""

import argparse
import json
import os
import time
from pathlib import Path

from sklearn.neural_network import MLPClassifier
from threadpoolctl import threadpool_limits

from trainer import data, network
from trainer.reporting import report_metric

#: AI Platform Training gives --job-dir, Vertex AI a variable; alone, results lie beside the code.
MODEL_DIR = os.environ.get("AIP_MODEL_DIR", "runs")
METRIC = "accuracy"


def main() -> None:
    """Train, report after every epoch, and leave the model where it belongs."""
    args = arguments()
    model = network.build(
        learning_rate=args.learning_rate,
        hidden_units=args.hidden_units,
        batch_size=args.batch_size,
        optimizer=args.optimizer,
        momentum=args.momentum,
        seed=args.seed,
    )
    with threadpool_limits(1):  # trials run beside each other, and the network is small
        accuracy = train(model, args.epochs)
    finish(model, args.job_dir, accuracy)


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="trainer.task")
    parser.add_argument("--job-dir", type=folder, default=MODEL_DIR, help="where results go")
    parser.add_argument("--learning_rate", type=float, default=0.001)
    parser.add_argument("--hidden_units", type=whole, default=32)
    parser.add_argument("--batch_size", type=whole, default=64)
    parser.add_argument("--optimizer", choices=("sgd", "adam"), default="adam")
    parser.add_argument("--momentum", type=float, default=0.9, help="of sgd")
    parser.add_argument("--epochs", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


def folder(text: str) -> Path:
    """Name the folder of a gs:// directory: buckets are mounted, on Vertex AI at /gcs."""
    return Path(text.replace("gs:/", os.environ.get("TRAINSHED_BUCKETS", "/gcs"), 1))


def whole(text: str) -> int:
    """Read a whole number; Vertex AI keeps discrete values as floats, and may say 64.0."""
    return int(float(text))


def train(model: MLPClassifier, epochs: int) -> float:
    """Train for so many epochs; give the accuracy after the last one."""
    accuracy, started = 0.0, time.monotonic()
    learning = network.learn(model, *data.load(), epochs)
    for epoch, accuracy in enumerate(learning, start=1):
        report_metric(METRIC, accuracy, epoch)
        seconds = time.monotonic() - started
        print(f"epoch {epoch}/{epochs}  accuracy {accuracy:.4f}  {seconds:.2f} s", flush=True)
    return accuracy


def finish(model: MLPClassifier, folder: Path, accuracy: float) -> None:
    """Leave the model and how good it is."""
    network.save(model, folder / "model.npz")
    (folder / "result.json").write_text(json.dumps({METRIC: accuracy}) + "\n")
    print(f"validation accuracy {accuracy:.4f}", flush=True)


if __name__ == "__main__":
    main()
