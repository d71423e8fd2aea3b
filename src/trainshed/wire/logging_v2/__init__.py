"""Cloud Logging: what reads its entries (``entries:list``) and what programs write to it."""
