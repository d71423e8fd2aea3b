"""Cloud Logging: reading entries (``entries:list``), and writes of programs."""
