"""Train on handwritten digits under MultiWorkerMirroredStrategy, which reads TF_CONFIG by itself.

Nothing here knows who started the program or where: this is how TensorFlow's own guide does it.
"""

import os

# Keras 3 cannot train under a strategy of several workers; tf_keras can.
os.environ["TF_USE_LEGACY_KERAS"] = "1"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # errors only

import argparse
import json
import tempfile
from pathlib import Path

import tensorflow as tf

from trainer import digits

#: AI Platform Training gives --job-dir, Vertex AI a variable; alone, results lie beside the code.
JOB_DIR = os.environ.get("AIP_MODEL_DIR", "runs")


def main() -> None:
    """Train on all workers together; the chief keeps the model and tells how it went."""
    args = arguments()
    tf.config.threading.set_intra_op_parallelism_threads(1)
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    resolver = strategy.cluster_resolver
    is_chief = resolver.task_type in (None, "chief", "master")
    print(f"{resolver.task_type} {resolver.task_id}: {strategy.num_replicas_in_sync} in sync")
    train, test = (dataset(part, args.batch_size) for part in digits.load())
    with strategy.scope():
        model = build()
    model.fit(
        train,
        epochs=args.epochs,
        verbose=2 if is_chief else 0,
        callbacks=[tf.keras.callbacks.BackupAndRestore(str(args.job_dir / "backup"))],
    )
    accuracy = model.evaluate(test, verbose=0, return_dict=True)["accuracy"]
    save(model, args.job_dir, is_chief=is_chief)
    if is_chief:
        result = {"accuracy": accuracy, "epochs": args.epochs}
        (args.job_dir / "result.json").write_text(json.dumps(result) + "\n")
        print(f"test accuracy {accuracy:.4f} after {args.epochs} epochs", flush=True)


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="trainer.task")
    parser.add_argument("--job-dir", type=folder, default=JOB_DIR, help="where results go")
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--batch-size", type=int, default=48, help="of all workers together")
    return parser.parse_args()


def folder(text: str) -> Path:
    """Name the folder of a gs:// directory: buckets are mounted, on Vertex AI at /gcs."""
    return Path(text.replace("gs:/", os.environ.get("TRAINSHED_BUCKETS", "/gcs"), 1))


def dataset(part: digits.Part, batch_size: int) -> tf.data.Dataset:
    """Give batches of which every worker takes its share."""
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    whole = tf.data.Dataset.from_tensor_slices(part).shuffle(len(part[1]), seed=1)
    return whole.batch(batch_size).with_options(options)


def build() -> tf.keras.Model:
    """Build the model; called in the strategy's scope, its weights are mirrored."""
    tf.keras.utils.set_random_seed(1)
    model = tf.keras.Sequential(
        [
            tf.keras.layers.InputLayer((8, 8, 1)),
            tf.keras.layers.Conv2D(16, 3, padding="same", activation="relu"),
            tf.keras.layers.MaxPooling2D(),
            tf.keras.layers.Flatten(),
            tf.keras.layers.Dense(64, activation="relu"),
            tf.keras.layers.Dense(10),
        ]
    )
    model.compile(
        optimizer=tf.keras.optimizers.Adam(0.003),
        loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    return model


def save(model: tf.keras.Model, job_dir: Path, *, is_chief: bool) -> None:
    """Save the model: all workers must take part, but only the chief's copy is kept."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = job_dir / "model" if is_chief else Path(scratch)
        model.save(str(folder), save_format="tf")


if __name__ == "__main__":
    main()
