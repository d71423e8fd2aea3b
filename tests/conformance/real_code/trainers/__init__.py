"""Trainers in the manner of public samples: they know Google's clients, and nothing of Trainshed.

Each takes ``--data gs://...`` and ``--output gs://...``, checks what it reads back, and fails if it
is wrong.  It would run on Google as it stands.
"""
