"""TensorFlow's MirroredStrategy on the GPUs that it sees.

python tf_mirrored.py
"""

import json
import os

import tensorflow as tf


def main():
    visible = {"told": os.environ.get("CUDA_VISIBLE_DEVICES")}
    gpus = tf.config.list_physical_devices("GPU")
    if not gpus:
        print(json.dumps({**visible, "lacks": "TensorFlow has no GPU"}), flush=True)
        return
    for gpu in gpus:
        tf.config.experimental.set_memory_growth(gpu, True)
    strategy = tf.distribute.MirroredStrategy()
    with strategy.scope():
        weights = tf.Variable(tf.zeros((16, 1)))
    inputs = tf.random.stateless_normal((64, 16), seed=(1, 2))
    answers = tf.reduce_sum(inputs, axis=1, keepdims=True)

    def step():
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(inputs @ weights - answers))
        gradient = tape.gradient(loss, weights)
        mean = tf.distribute.get_replica_context().all_reduce("MEAN", gradient)
        weights.assign_sub(0.1 * mean)
        return loss

    losses = []
    for _ in range(30):
        loss = strategy.reduce("MEAN", strategy.run(step), axis=None)
        losses.append(float(loss))
    report = {"count": strategy.num_replicas_in_sync, "device": "cuda"}
    print(
        json.dumps({**visible, **report, "losses": {"float32": losses[:: len(losses) - 1]}}),
        flush=True,
    )


main()
