"""Commands that create, list, watch and cancel jobs on a server."""
