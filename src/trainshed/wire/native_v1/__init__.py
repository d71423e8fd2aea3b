"""Our own API below ``/trainshed/v1``: documents of jobs, trials and log lines."""
