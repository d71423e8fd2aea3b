"""The reducer process, ``trainshed-reducer``: sums gradients for the workers of one job."""
