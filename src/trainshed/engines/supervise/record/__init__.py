"""What a supervisor writes and others read: reports, facts, the log, and its own orders."""
