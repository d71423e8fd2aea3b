"""Scalars as TensorFlow writes them, in its first and second way and by Keras.

python tests/engines/write_tensorflow_events.py FOLDER
"""

import sys

import tensorflow as tf

folder = sys.argv[1]
writer = tf.summary.create_file_writer(folder + "/two")
with writer.as_default():
    for step in range(3):
        tf.summary.scalar("accuracy", 0.5 + step, step=step)
        tf.summary.write("weights", tf.random.normal([100]), step=step)
        tf.summary.write("note", tf.constant("words"), step=step)
writer.close()
with tf.Graph().as_default():
    one = tf.compat.v1.summary.FileWriter(folder + "/one/eval")
    loss = tf.compat.v1.summary.Summary(
        value=[tf.compat.v1.summary.Summary.Value(tag="loss", simple_value=0.25)]
    )
    one.add_summary(loss, global_step=12)
    one.close()
model = tf.keras.Sequential([tf.keras.layers.Input((2,)), tf.keras.layers.Dense(1)])
model.compile(loss="mse", metrics=["mae"])
board = tf.keras.callbacks.TensorBoard(folder + "/keras", write_graph=True)
x, y = tf.zeros((8, 2)), tf.ones((8, 1))
model.fit(x, y, epochs=2, validation_data=(x, y), callbacks=[board], verbose=0)
