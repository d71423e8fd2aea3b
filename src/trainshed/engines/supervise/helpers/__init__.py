"""Programs that a supervisor starts besides the replicas, and the code that they share."""
