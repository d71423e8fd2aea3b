"""Commands that check a job or this machine, or print the catalog; they change nothing."""
