"""The traces of jobs, made from their stored events."""
