"""Benchmarks of studies: regret compared with Optuna, and the savings of early stopping."""
