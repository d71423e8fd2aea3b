"""Train on handwritten digits with parameter servers; TF_CONFIG says which part to play.

The same program runs on every replica.  Workers and parameter servers serve TensorFlow until they
are stopped: the end of the chief is the end of the job.
"""

import os

# Keras 3 cannot train under a parameter server strategy; tf_keras can.
os.environ["TF_USE_LEGACY_KERAS"] = "1"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # errors only

import argparse
from pathlib import Path

import tensorflow as tf

from trainer import chief, evaluator

#: AI Platform Training gives --job-dir, Vertex AI a variable; alone, results lie beside the code.
JOB_DIR = os.environ.get("AIP_MODEL_DIR", "runs")


def main() -> None:
    """Play the part that TF_CONFIG names."""
    args = arguments()
    tf.get_logger().setLevel("ERROR")
    tf.config.threading.set_intra_op_parallelism_threads(1)
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    print(f"{resolver.task_type} {resolver.task_id}", flush=True)
    if resolver.task_type in ("worker", "ps"):
        serve(resolver)
    elif resolver.task_type == "evaluator":
        evaluator.run(args.job_dir, args.epochs)
    elif not resolver.cluster_spec().jobs:
        raise SystemExit("TF_CONFIG names no cluster: parameter servers and workers are needed")
    else:
        chief.run(resolver, args.job_dir, args.epochs)


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="trainer.task")
    parser.add_argument("--job-dir", type=folder, default=JOB_DIR, help="where results go")
    parser.add_argument("--epochs", type=int, default=12)
    return parser.parse_args()


def folder(text: str) -> Path:
    """Name the folder of a gs:// directory: buckets are mounted, on Vertex AI at /gcs."""
    return Path(text.replace("gs:/", os.environ.get("TRAINSHED_BUCKETS", "/gcs"), 1))


def serve(resolver: tf.distribute.cluster_resolver.ClusterResolver) -> None:
    """Do what the chief asks for, for ever."""
    server = tf.distribute.Server(
        resolver.cluster_spec(),
        job_name=resolver.task_type,
        task_index=resolver.task_id,
        protocol=resolver.rpc_layer or "grpc",
        start=True,
    )
    server.join()


if __name__ == "__main__":
    main()
