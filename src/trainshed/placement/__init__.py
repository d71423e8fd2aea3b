"""Where a job goes, all of it or nothing; and why it waits."""
