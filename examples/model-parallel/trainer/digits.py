"""The data, and the model in two pieces.

Everything is in double precision: the split model is compared with the unsplit one, and rounding
should not be what the comparison shows.
"""

import torch
from sklearn.datasets import load_digits
from torch import nn

#: How many numbers cross from the first piece of the model to the second, per image.
CUT = 64
TEST_IMAGES = 357


def load(
    device: torch.device,
) -> tuple[tuple[torch.Tensor, torch.Tensor], tuple[torch.Tensor, torch.Tensor]]:
    """Give (images, labels) to train on, 1,440 of them, and to test on, the other 357."""
    digits = load_digits()
    images = torch.tensor(digits.data, dtype=torch.float64, device=device) / 16 - 0.5
    labels = torch.tensor(digits.target, device=device)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(7))
    test, train = order[:TEST_IMAGES], order[TEST_IMAGES:]
    return (images[train], labels[train]), (images[test], labels[test])


def shuffled(count: int, epoch: int) -> torch.Tensor:
    """Give the order of an epoch, the same for every process."""
    return torch.randperm(count, generator=torch.Generator().manual_seed(epoch))


def pieces() -> list[nn.Module]:
    """Build the two pieces of the model, with the same first weights in every process."""
    torch.manual_seed(1)
    first = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, CUT), nn.ReLU())
    second = nn.Sequential(nn.Linear(CUT, 32), nn.ReLU(), nn.Linear(32, 10))
    return [first.double(), second.double()]


def optimizer(model: nn.Module) -> torch.optim.Optimizer:
    """Build what changes the weights; it is the same for a piece and for the whole."""
    return torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
