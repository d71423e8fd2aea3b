"""What a supervisor watches while replicas run: progress, checkpoints and metrics."""
