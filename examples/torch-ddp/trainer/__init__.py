"""A training package: PyTorch DistributedDataParallel on handwritten digits."""
