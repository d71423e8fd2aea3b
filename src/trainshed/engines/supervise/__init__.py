"""The supervisor of an attempt: the one small process that owns its replicas to their end."""
