"""The local engine: the replicas of a job as supervised processes of this machine."""
