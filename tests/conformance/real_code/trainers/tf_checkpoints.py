"""Checkpoints as Estimators and loops of one's own write them, a SavedModel, and a second start."""

import numpy as np
import tensorflow as tf

from trainers.flags import parsed


class Model(tf.Module):
    """A line."""

    def __init__(self):
        self.w = tf.Variable(tf.zeros([4, 1]))

    @tf.function(input_signature=[tf.TensorSpec([None, 4], tf.float32)])
    def __call__(self, x):
        return x @ self.w


def trained(folder, steps):
    """Go on from the latest checkpoint; the number of the step that is reached."""
    model, step = Model(), tf.Variable(0, dtype=tf.int64)
    manager = tf.train.CheckpointManager(
        tf.train.Checkpoint(model=model, step=step), folder, max_to_keep=2
    )
    manager.restore_or_initialize()
    for _ in range(steps):
        model.w.assign_add(tf.ones([4, 1]))
        step.assign_add(1)
        manager.save(int(step))
    return model, int(step)


def by_the_saver(folder):
    """The saver of TensorFlow 1, which is the Estimator's."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        value = tf.compat.v1.get_variable("value", initializer=41.0)
        session.run(tf.compat.v1.global_variables_initializer())
        session.run(value.assign_add(1.0))
        saver = tf.compat.v1.train.Saver()
        saver.save(session, f"{folder}/model.ckpt", global_step=100)
        tf.io.write_graph(session.graph_def, folder, "graph.pbtxt")
        with tf.compat.v1.summary.FileWriter(f"{folder}/eval") as writer:
            summary = tf.compat.v1.Summary()
            summary.value.add(tag="accuracy", simple_value=0.9)
            writer.add_summary(summary, 100)
    assert tf.train.load_variable(folder, "value") == 42.0
    state = tf.train.get_checkpoint_state(folder)
    assert state.model_checkpoint_path == f"{folder}/model.ckpt-100", state


def main():
    args = parsed()
    folder = f"{args.output}/checkpoints"
    assert trained(folder, 3)[1] == 3
    model, step = trained(folder, 1)
    assert step == 4
    assert tf.train.latest_checkpoint(folder) == f"{folder}/ckpt-4"
    assert len(tf.io.gfile.glob(f"{folder}/*.index")) == 2
    by_the_saver(f"{args.output}/saver")

    tf.saved_model.save(model, f"{args.output}/export/1")
    loaded = tf.saved_model.load(f"{args.output}/export/1")
    assert np.allclose(loaded(tf.ones([1, 4])), 16.0)
    assert tf.io.gfile.isdir(f"{args.output}/export/1/variables")
    writer = tf.summary.create_file_writer(f"{args.output}/logs")
    with writer.as_default():
        tf.summary.scalar("loss", 0.5, step=1)
    writer.close()


if __name__ == "__main__":
    main()
