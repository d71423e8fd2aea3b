"""PyTorch: checkpoints by fsspec and by google-cloud-storage."""

import fsspec
import torch
from google.cloud import storage
from torch import nn

from trainers.flags import parsed


def main():
    args = parsed()
    model = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 3))
    optimizer = torch.optim.Adam(model.parameters())
    for epoch in range(2):
        loss = model(torch.ones(8, 4)).square().mean()
        loss.backward()
        optimizer.step()
        with fsspec.open(f"{args.output}/checkpoints/epoch-{epoch}.pt", "wb") as file:
            torch.save({"epoch": epoch, "model": model.state_dict()}, file)
    fs, path = fsspec.core.url_to_fs(f"{args.output}/checkpoints")
    latest = max(fs.ls(path))
    with fs.open(latest, "rb") as file:
        checkpoint = torch.load(file, weights_only=True)
    assert checkpoint["epoch"] == 1
    model.load_state_dict(checkpoint["model"])

    torch.save(model.state_dict(), "model.pth")
    blob = storage.Blob.from_string(f"{args.output}/model.pth", client=storage.Client())
    blob.upload_from_filename("model.pth")
    with fsspec.open(f"{args.output}/model.pth") as file:
        again = torch.load(file, weights_only=True)
    assert all(torch.equal(again[key], value) for key, value in model.state_dict().items())


if __name__ == "__main__":
    main()
