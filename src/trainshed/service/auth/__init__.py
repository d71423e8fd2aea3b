"""Who calls, and what tells: tokens, keys of service accounts, the certificates of the server."""
