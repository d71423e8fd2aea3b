"""Keras: checkpoints, TensorBoard, CSV logs and the model itself go to the job's directory."""

import os

import numpy as np
import tensorflow as tf

from trainers.flags import parsed


def compiled():
    model = tf.keras.Sequential(
        [tf.keras.Input((4,)), tf.keras.layers.Dense(8, "relu"), tf.keras.layers.Dense(3)]
    )
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss, metrics=["accuracy"])
    return model


def main():
    args = parsed()
    out = args.output
    x, y = np.random.rand(64, 4).astype("float32"), np.random.randint(0, 3, 64)
    callbacks = [
        tf.keras.callbacks.TensorBoard(os.path.join(out, "logs"), histogram_freq=1),
        tf.keras.callbacks.ModelCheckpoint(os.path.join(out, "ckpt-{epoch:02d}.keras")),
        tf.keras.callbacks.ModelCheckpoint(
            os.path.join(out, "best.weights.h5"),
            save_weights_only=True,
            save_best_only=True,
            monitor="loss",
        ),
        tf.keras.callbacks.BackupAndRestore(os.path.join(out, "backup")),
    ]
    model = compiled()
    model.fit(x, y, epochs=2, batch_size=32, callbacks=callbacks, verbose=2)
    model.save(os.path.join(out, "model.keras"))
    model.export(os.path.join(out, "export", "1"))

    expected = model.predict(x, verbose=0)
    again = tf.keras.models.load_model(os.path.join(out, "model.keras"))
    assert np.allclose(again.predict(x, verbose=0), expected)
    compiled().load_weights(os.path.join(out, "best.weights.h5"))
    served = tf.saved_model.load(os.path.join(out, "export", "1"))
    assert np.allclose(served.serve(x), expected, atol=1e-5)
    names = tf.io.gfile.glob(os.path.join(out, "logs/train/events.out.tfevents.*"))
    tags = {
        value.tag
        for name in names
        for event in tf.compat.v1.train.summary_iterator(name)
        for value in event.summary.value
    }
    assert "epoch_loss" in tags, (names, tags)
    assert tf.io.gfile.exists(os.path.join(out, "ckpt-02.keras"))


if __name__ == "__main__":
    main()
