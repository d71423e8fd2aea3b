"""From a study and its trials to what should happen next; pure functions.

Nothing here reads a clock, a file or a database: what is the same is answered the same, so that a
server that was killed goes on where it was.
"""
