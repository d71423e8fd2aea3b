"""Predicts the time and the cost of jobs on other clusters, and sizes reducers."""
