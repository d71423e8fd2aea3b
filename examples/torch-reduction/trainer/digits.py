"""The handwritten digits that ship with scikit-learn, and a network much too wide for them."""

import torch
from sklearn.datasets import load_digits
from torch import nn

TEST_IMAGES = 357
SPLIT_SEED = 7

Part = tuple[torch.Tensor, torch.Tensor]


def load() -> tuple[Part, Part]:
    """Give (images, labels) to train on, 1,440 of them, and to test on, the other 357."""
    digits = load_digits()
    images = torch.tensor(digits.data, dtype=torch.float32) / 16 - 0.5
    labels = torch.tensor(digits.target, dtype=torch.int64)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(SPLIT_SEED))
    test, train = order[:TEST_IMAGES], order[TEST_IMAGES:]
    return (images[train], labels[train]), (images[test], labels[test])


def build(width: int, seed: int) -> nn.Module:
    """Build four layers of ``width``, with the same first weights on every replica.

    They make the gradient large (13 MB for a width of 1024) and the computing little: what is
    measured is how fast gradients are exchanged.
    """
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Linear(64, width),
        nn.ReLU(),
        nn.Linear(width, width),
        nn.ReLU(),
        nn.Linear(width, width),
        nn.ReLU(),
        nn.Linear(width, width),
        nn.ReLU(),
        nn.Linear(width, 10),
    )


def gradient_mb(model: nn.Module) -> float:
    """Give what every replica exchanges at every step, in 1,000,000 bytes."""
    return sum(weights.numel() * weights.element_size() for weights in model.parameters()) / 1e6
