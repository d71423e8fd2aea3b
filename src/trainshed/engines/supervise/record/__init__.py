"""The files of an attempt: its spec, records, log, reports, and the order to stop."""
