"""A training package: PyTorch DistributedDataParallel with gradients that keep the network busy."""
