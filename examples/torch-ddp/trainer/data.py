"""The handwritten digits that ship with scikit-learn: 1,797 images of 8 x 8 pixels."""

import torch
from sklearn.datasets import load_digits

TEST_IMAGES = 357
SPLIT_SEED = 7


def load() -> tuple[tuple[torch.Tensor, torch.Tensor], tuple[torch.Tensor, torch.Tensor]]:
    """Give (images, labels) to train on, 1,440 of them, and to test on, the other 357.

    In double precision: sums of gradients are rounded differently by one replica and by three, and
    in single precision training makes such a difference visible after a few epochs.
    """
    digits = load_digits()
    images = torch.tensor(digits.images, dtype=torch.float64).unsqueeze(1) / 16 - 0.5
    labels = torch.tensor(digits.target, dtype=torch.int64)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(SPLIT_SEED))
    test, train = order[:TEST_IMAGES], order[TEST_IMAGES:]
    return (images[train], labels[train]), (images[test], labels[test])


def shuffled(count: int, seed: int, epoch: int) -> torch.Tensor:
    """Give the order of an epoch: the same on every replica, and after a restart."""
    return torch.randperm(count, generator=torch.Generator().manual_seed(seed * 1_000_003 + epoch))
