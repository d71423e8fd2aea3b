"""Verbs that create, list, watch and end jobs on a server."""
