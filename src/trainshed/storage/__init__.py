"""Where gs:// lies: buckets are folders of this machine."""
