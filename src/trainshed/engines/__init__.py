"""Engines start, watch and end the replicas of attempts; no engine imports another engine."""
