"""What a job's programs can reach: the walls around a replica, one module a mode.

``choose`` decides for the server, by trying; ``compose`` says which walls a replica gets; the
supervisor builds them with the module of the mode, between fork and exec.
"""
