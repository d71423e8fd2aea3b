"""AI Platform Training, ``ml/v1``: the Job resource and its names of fields."""
