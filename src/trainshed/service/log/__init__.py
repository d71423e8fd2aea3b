"""A job's log: whose lines belong to it, page by page or as they come."""
