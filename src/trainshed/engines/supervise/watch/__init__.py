"""Watches replicas while they run: their progress, checkpoints and metrics."""
