"""Storage behind gs://: buckets are folders of this machine."""
