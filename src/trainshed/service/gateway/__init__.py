"""Gives the replicas of jobs the services of a Google VM (decision 0040)."""
