"""Vertex AI custom training, ``aiplatform/v1``: its three kinds of job, and names of fields."""
