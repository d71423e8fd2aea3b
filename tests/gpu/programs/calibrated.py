"""A ResNet or a transformer on as many processes as there are, with a loader: to be calibrated."""

import os
import sys
from pathlib import Path

import torch
from torch import distributed
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "examples" / "gpu-check"))

from models import MODELS  # noqa: E402 - after its folder
from steps import arguments  # noqa: E402 - the same

SAMPLES = 1 << 20


class Repeated(Dataset):
    """The samples of one batch, again and again."""

    def __init__(self, inputs: torch.Tensor, answers: torch.Tensor) -> None:
        self.inputs, self.answers = inputs, answers

    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        at = index % len(self.inputs)
        return self.inputs[at], self.answers[at]


def main() -> None:
    """Train until somebody ends it, or the samples do."""
    args = arguments()
    torch.manual_seed(1)
    has_gpu = torch.cuda.is_available()
    device = torch.device("cuda" if has_gpu else "cpu")
    model, inputs, answers = MODELS[args.model](args)
    model = model.to(device)
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        distributed.init_process_group("nccl" if has_gpu else "gloo")
        model = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for batch, labels in DataLoader(Repeated(inputs, answers), batch_size=args.batch_size):
        optimizer.zero_grad()
        with torch.autocast(device.type, dtype=torch.bfloat16, enabled=args.precision == "bf16"):
            loss = cross_entropy(model(batch.to(device)), labels.to(device))
        loss.backward()
        optimizer.step()


main()
