"""The server's own records: its log, and the spans of its traces."""
