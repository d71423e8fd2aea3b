"""Decides the next steps of a study from its trials; pure functions.

Nothing here reads a clock, a file or a database.  Equal inputs give equal results, so that a
restarted server continues where it was.
"""
