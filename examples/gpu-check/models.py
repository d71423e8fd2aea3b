"""The models to choose from, each with a batch that it learns from.

Put your own model here: a function that gives the module, its inputs and the right answers.
"""

import argparse

import torch
from torch import nn

CLASSES, WORDS, LENGTH = 10, 1000, 128

Task = tuple[nn.Module, torch.Tensor, torch.Tensor]


def conv(args: argparse.Namespace) -> Task:
    """Two layers of convolutions."""
    width = args.width or 32
    model = nn.Sequential(
        nn.Conv2d(3, width, kernel_size=3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(width, 2 * width, kernel_size=3, padding=1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(4),
        nn.Flatten(),
        nn.Linear(2 * width * 16, CLASSES),
    )
    return model, *images(args)


def resnet(args: argparse.Namespace) -> Task:
    """A ResNet of 18 layers: four stages of two blocks, each stage half as large and twice as wide.

    As He et al. 2015, with the first layer that is usual for small images.
    """
    width = args.width or 64
    layers: list[nn.Module] = [*normed(3, width), nn.ReLU()]
    before = width
    for stage in range(4):
        after = width << stage
        layers += [Block(before, after, stride=1 if stage == 0 else 2), Block(after, after)]
        before = after
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, CLASSES)]
    return nn.Sequential(*layers), *images(args)


def transformer(args: argparse.Namespace) -> Task:
    """A decoder of four layers that says at each place which word is next."""
    width = args.width or 512
    words = torch.randint(WORDS, (args.batch_size, LENGTH + 1))
    return Decoder(width), words[:, :-1], words[:, 1:]


class Block(nn.Module):
    """Two convolutions, and a way around them."""

    def __init__(self, before: int, after: int, stride: int = 1) -> None:
        """Change the number of channels, and the size of the image by the stride."""
        super().__init__()
        self.way = nn.Sequential(
            *normed(before, after, stride), nn.ReLU(), *normed(after, after, 1)
        )
        is_same = stride == 1 and before == after
        self.around = (
            nn.Identity() if is_same else nn.Sequential(*normed(before, after, stride, kernel=1))
        )

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Add up both ways."""
        return nn.functional.relu(self.way(images) + self.around(images))


class Decoder(nn.Module):
    """Words to the scores of the words that follow them."""

    def __init__(self, width: int, layers: int = 4) -> None:
        """Heads are 64 numbers wide, as usual."""
        super().__init__()
        self.words = nn.Embedding(WORDS, width)
        self.places = nn.Parameter(torch.zeros(LENGTH, width))
        layer = nn.TransformerEncoderLayer(
            width, max(1, width // 64), 4 * width, batch_first=True, norm_first=True
        )
        self.layers = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.scores = nn.Linear(width, WORDS)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        """Give scores of shape (batch, word, place), as the loss wants them."""
        mask = nn.Transformer.generate_square_subsequent_mask(LENGTH, device=words.device)
        hidden = self.layers(self.words(words) + self.places, mask=mask, is_causal=True)
        return self.scores(hidden).transpose(1, 2)


def normed(before: int, after: int, stride: int = 1, kernel: int = 3) -> list[nn.Module]:
    """Build a convolution and the normalisation behind it."""
    convolution = nn.Conv2d(before, after, kernel, stride, padding=kernel // 2, bias=False)
    return [convolution, nn.BatchNorm2d(after)]


def images(args: argparse.Namespace) -> tuple[torch.Tensor, torch.Tensor]:
    """Make images and their classes, at random."""
    shape = (args.batch_size, 3, args.image_size, args.image_size)
    return torch.randn(shape), torch.randint(CLASSES, (args.batch_size,))


MODELS = {"conv": conv, "resnet": resnet, "transformer": transformer}
