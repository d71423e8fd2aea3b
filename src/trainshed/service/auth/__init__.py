"""Authenticates callers: tokens, keys of service accounts, the certificates of the server."""
