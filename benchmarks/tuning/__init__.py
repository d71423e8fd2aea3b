"""Benchmarks of studies: regret beside Optuna, and what early stopping saves."""
