"""The benchmark of jobs on a Kubernetes cluster."""
