"""What Trainshed costs and gains; ``python -m benchmarks --help`` lists all benchmarks."""
