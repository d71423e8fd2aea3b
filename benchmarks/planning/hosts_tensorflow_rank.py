"""The program of one host of `hosts_tensorflow.py`: Keras under TensorFlow's own strategy."""

import json
import os
import sys
import time
from itertools import pairwise
from typing import Any, Final

import tensorflow as tf

#: Little to compute and 13 MB of gradients: four hosts share the processors of one machine.
WIDTH: Final = 1024
LAYERS: Final = 3
BATCH: Final = 8
STEPS: Final = 10
WARM: Final = 4


class Times(tf.keras.callbacks.Callback):  # type: ignore[misc]  # it has no types
    """When each step is over."""

    def __init__(self) -> None:
        """None yet."""
        super().__init__()
        self.ends: list[float] = []

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """One more."""
        del batch, logs
        self.ends.append(time.monotonic())


def main() -> None:
    """Run the part that the argument names, and print its result."""
    tf.config.threading.set_intra_op_parallelism_threads(1)
    alone = "TF_CONFIG" not in os.environ
    strategy = (
        tf.distribute.get_strategy() if alone else tf.distribute.MultiWorkerMirroredStrategy()
    )
    with strategy.scope():
        model = build()
    size = 4.0 * model.count_params()
    seconds = probed(strategy, size) if sys.argv[1] == "probe" else trained(model, strategy)
    print("FOUND", json.dumps({"seconds": seconds, "bytes": size}), flush=True)


def build() -> Any:
    """Make a network that is much wider than its task needs."""
    layers = [tf.keras.layers.Dense(WIDTH, activation="relu") for _ in range(LAYERS)]
    model = tf.keras.Sequential([tf.keras.layers.InputLayer((WIDTH,)), *layers])
    model.compile(optimizer=tf.keras.optimizers.SGD(0.001), loss="mse")
    return model


def trained(model: Any, strategy: Any) -> list[float]:
    """Seconds of each step after the first ones."""
    count = strategy.num_replicas_in_sync
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    images = tf.random.normal((BATCH * count, WIDTH))
    data = tf.data.Dataset.from_tensors((images, images)).repeat(STEPS).with_options(options)
    times = Times()
    model.fit(data, epochs=1, verbose=0, callbacks=[times])
    ends = times.ends
    return [after - before for before, after in pairwise(ends)][WARM:]


def probed(strategy: Any, size: float) -> list[float]:
    """Seconds of an all-reduce of so many bytes, after the first ones."""

    @tf.function  # type: ignore[untyped-decorator]
    def summed(values: Any) -> Any:
        def inside(tensor: Any) -> Any:
            context = tf.distribute.get_replica_context()
            return context.all_reduce(tf.distribute.ReduceOp.SUM, tf.identity(tensor))

        return strategy.run(inside, args=(values,))

    values = tf.ones(int(size) // 4)
    seconds = []
    for _ in range(STEPS):
        began = time.monotonic()
        summed(values).numpy()
        seconds.append(time.monotonic() - began)
    return seconds[WARM:]


if __name__ == "__main__":
    main()
