"""Programs that a supervisor starts beside the replicas, and what these programs share."""
