"""Isolates the programs of a job: one module for each isolation mode.

``choose`` tries the modes at the start of the server; ``compose`` decides the view of a replica;
the supervisor applies it with the module of the mode, between fork and exec.
"""
