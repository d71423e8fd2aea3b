"""What a machine of Google's gives to a program, given to the replicas of jobs (decision 0040)."""
