"""The supervisor of an attempt: one small process that owns its replicas until they have ended."""
