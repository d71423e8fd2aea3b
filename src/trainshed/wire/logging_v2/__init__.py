"""Cloud Logging: parses ``entries:list`` and its filters, and the log entries of programs."""
