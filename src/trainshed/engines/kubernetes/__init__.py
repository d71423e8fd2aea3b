"""Runs attempts on a Kubernetes cluster.

Each attempt is one JobSet and one folder on a shared claim.
"""
