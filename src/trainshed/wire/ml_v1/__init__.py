"""AI Platform Training, ``ml/v1``: parses and renders the Job resource."""
