"""Commands that run a job, or a program written for Google, on this machine."""
