"""A network with one hidden layer, trained epoch by epoch."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from sklearn.neural_network import MLPClassifier

from trainer.data import Part

CLASSES = np.arange(10)


def build(  # noqa: PLR0913  # all that is tuned
    *,
    learning_rate: float,
    hidden_units: int,
    batch_size: int,
    optimizer: str,
    momentum: float = 0.9,
    seed: int = 1,
) -> MLPClassifier:
    """Give a network that has learned nothing yet; ``momentum`` is for sgd alone."""
    return MLPClassifier(
        hidden_layer_sizes=(hidden_units,),
        solver=optimizer,
        learning_rate_init=learning_rate,
        batch_size=batch_size,
        momentum=momentum,
        nesterovs_momentum=False,
        random_state=seed,
    )


def learn(network: MLPClassifier, train: Part, validation: Part, epochs: int) -> Iterator[float]:
    """Go over the training images so many times; after each, give the share of others it reads."""
    network.max_iter = epochs + 1  # partial_fit counts epochs, and would warn at the last one
    for _ in range(epochs):
        network.partial_fit(*train, classes=CLASSES)
        yield float(network.score(*validation))


def save(network: MLPClassifier, path: Path) -> None:
    """Write the weights, layer by layer, as plain arrays."""
    path.parent.mkdir(parents=True, exist_ok=True)
    weights = {f"weights_{layer}": array for layer, array in enumerate(network.coefs_)}
    biases = {f"biases_{layer}": array for layer, array in enumerate(network.intercepts_)}
    np.savez(path, **weights, **biases)
