"""Vertex AI custom training, ``aiplatform/v1``: parses and renders its three kinds of jobs."""
