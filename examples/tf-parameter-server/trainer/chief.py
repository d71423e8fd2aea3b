"""The chief: it builds the model on the parameter servers and hands steps to the workers."""

import json
from pathlib import Path

import tensorflow as tf

from trainer import evaluator, model

BATCH_SIZE = 48
STEPS_PER_EPOCH = 30

Resolver = tf.distribute.cluster_resolver.ClusterResolver


def run(
    resolver: tf.distribute.cluster_resolver.ClusterResolver, folder: Path, epochs: int
) -> None:
    """Train, leave a checkpoint after each epoch, and wait for the evaluator's last word."""
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    with strategy.scope():
        network = model.build()
        saved = tf.train.Checkpoint(model=network, optimizer=network.optimizer)
    # all are kept: the evaluator may still be reading an old one
    manager = tf.train.CheckpointManager(saved, str(model.checkpoints(folder)), max_to_keep=None)
    begun = resume(saved, manager)
    network.fit(
        tf.keras.utils.experimental.DatasetCreator(batches),
        epochs=epochs,
        initial_epoch=begun,
        steps_per_epoch=STEPS_PER_EPOCH,
        verbose=2,
        callbacks=[
            tf.keras.callbacks.LambdaCallback(
                on_epoch_end=lambda epoch, _: manager.save(checkpoint_number=epoch + 1)
            )
        ],
    )
    finish(network, folder, epochs)


def resume(saved: tf.train.Checkpoint, manager: tf.train.CheckpointManager) -> int:
    """Go back to the newest checkpoint, if there is one; give the epochs that are done."""
    newest = manager.latest_checkpoint
    if newest is None:
        return 0
    saved.restore(newest).expect_partial()
    print(f"resumed after epoch {model.number(newest)}", flush=True)
    return model.number(newest)


def batches(context: tf.distribute.InputContext) -> tf.data.Dataset:
    """Give a worker its endless stream of batches; called on each worker."""
    images = tf.data.Dataset.from_tensor_slices(model.digits()[0])
    seed = context.input_pipeline_id if context else 0
    return images.shuffle(2000, seed=seed).repeat().batch(BATCH_SIZE)


def finish(network: tf.keras.Model, folder: Path, epochs: int) -> None:
    """Take the evaluator's measurement, or measure here where there is no evaluator."""
    accuracy, source = evaluator.awaited(folder, epochs), "the evaluator"
    if accuracy is None:
        images, labels = model.digits()[1]
        local = model.build()
        local.set_weights(network.get_weights())
        accuracy, source = local.evaluate(images, labels, verbose=0)[1], "the chief"
    result = {"accuracy": accuracy, "epochs": epochs, "measured_by": source}
    (folder / "result.json").write_text(json.dumps(result) + "\n")
    print(f"test accuracy {accuracy:.4f} after {epochs} epochs, measured by {source}", flush=True)
