"""Storage for gs:// URIs: buckets are folders of the server's machine."""
