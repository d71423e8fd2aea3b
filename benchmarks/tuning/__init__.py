"""Benchmarks of studies: regret beside Optuna, and the savings of early stopping."""
