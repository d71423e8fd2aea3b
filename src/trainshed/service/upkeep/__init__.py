"""What the server does at intervals: disk usage, old logs, file modes, the audit log."""
