"""The model in one piece in one process, on its CPU: what the split one is compared with."""

import torch
from torch import nn
from torch.nn import functional

from trainer import digits


def losses(epochs: int, batch_size: int) -> list[float]:
    """Train the whole model and give the mean loss of each epoch."""
    (images, labels), _ = digits.load(torch.device("cpu"))
    model = nn.Sequential(*digits.pieces())
    optimizer = digits.optimizer(model)
    curve = []
    for epoch in range(1, epochs + 1):
        total = 0.0
        for batch in digits.shuffled(len(labels), epoch).split(batch_size):
            loss = functional.cross_entropy(model(images[batch]), labels[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(batch)
        curve.append(total / len(labels))
    return curve
