"""Places all replicas of a job or none, and explains why a job waits."""
