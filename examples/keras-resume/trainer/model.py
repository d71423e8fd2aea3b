"""A small network with dropout, its whole state, and its fingerprint."""

import hashlib

import keras

FEATURES, CLASSES = 20, 4


def build() -> keras.Model:
    """Build the network and its optimizer, ready for a state to be put in."""
    model = keras.Sequential(
        [
            keras.layers.Input((FEATURES,)),
            keras.layers.Dense(64, activation="relu"),
            keras.layers.Dropout(0.2),
            keras.layers.Dense(CLASSES),
        ]
    )
    model.compile(
        optimizer=keras.optimizers.Adam(0.01),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        jit_compile=False,  # so small a network trains before XLA has compiled it
    )
    model.optimizer.build(model.trainable_variables)
    return model


def state(model: keras.Model) -> list[keras.Variable]:
    """Give all variables on which the next step depends: weights, dropout's numbers, moments."""
    return [*model.variables, *model.optimizer.variables]


def reseed(model: keras.Model, seed: int, epoch: int) -> None:
    """Let dropout's random numbers follow from the epoch: BackupAndRestore does not keep them."""
    for layer in model.layers:
        if isinstance(layer, keras.layers.Dropout):
            layer.seed_generator.state.assign([seed, epoch])


def fingerprint(model: keras.Model) -> str:
    """Give one number for all weights: equal if and only if every bit of them is."""
    digest = hashlib.sha256()
    for weights in model.get_weights():
        digest.update(weights.tobytes())
    return digest.hexdigest()
