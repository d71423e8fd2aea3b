"""Reads the logs of jobs, page by page or as a stream."""
