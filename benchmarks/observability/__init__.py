"""The benchmarks of samples, metrics, traces, usage and scalars."""
