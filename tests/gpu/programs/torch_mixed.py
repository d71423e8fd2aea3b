"""Trains a small network in mixed precision, and tells what it sees of GPUs.

    python torch_mixed.py

bfloat16 and float16 by autocast, the latter with scaled losses.
"""

import json
import os

import torch

STEPS = 30


def main():
    device = "cuda" if torch.cuda.is_available() else "cpu"
    uuids = [
        str(torch.cuda.get_device_properties(index).uuid)
        for index in range(torch.cuda.device_count())
    ]
    losses = {str(dtype): trained(device, dtype) for dtype in (torch.bfloat16, torch.float16)}
    report = {"told": os.environ.get("CUDA_VISIBLE_DEVICES"), "device": device, "uuids": uuids}
    print(json.dumps({**report, "losses": losses}), flush=True)


def trained(device, dtype):
    """The first loss and the last."""
    torch.manual_seed(1)
    layers = [torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1)]
    model = torch.nn.Sequential(*layers).to(device)
    inputs = torch.randn(64, 32, device=device)
    answers = inputs.sum(dim=1, keepdim=True) / 32
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler(device, enabled=dtype == torch.float16)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        with torch.autocast(device, dtype=dtype):
            outputs = model(inputs)
            assert outputs.dtype == dtype
            loss = torch.nn.functional.mse_loss(outputs.float(), answers)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    return losses[0], losses[-1]


main()
