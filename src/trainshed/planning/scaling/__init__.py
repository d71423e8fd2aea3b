"""How long a training step takes on more accelerators than were measured, and what binds it.

Pure: values in, values out, the standard library only.  The equations are in
docs/sources/planner.md 3; links and reducers are ``planning.exchange``'s.
"""
