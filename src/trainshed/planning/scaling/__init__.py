"""Predicts the time of a training step on more accelerators, and its bottleneck.

Pure functions of values, with the standard library only.  The equations are in
docs/sources/planner.md 3; ``planning.exchange`` computes links and reducers.
"""
