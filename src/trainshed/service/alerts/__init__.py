"""Conditions of the installation that a person should look at, for users without Prometheus."""
