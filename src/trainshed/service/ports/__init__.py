"""The listening sockets of a server, which stay open while the server is away.

A port that is free for a moment goes to the first program that asks, and programs of jobs run on
while the server is restarted.  So another process keeps a duplicate of each listening socket: a
small holder (``holder``) or systemd's descriptor store (``systemd``).  Connections wait in the
socket's queue, and the next server of the data directory accepts them (``held``).
"""
