"""The benchmark of jobs on a Slurm cluster."""
