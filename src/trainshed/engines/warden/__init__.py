"""Runs replicas on other machines: a launcher on the first node, and a warden for each replica.

The launcher is the supervisor of the attempt (``engines.supervise``); it controls its replicas over
TCP connections to their wardens.  A warden owns one replica.  Launchers and wardens run from
one archive and need only Python 3.9 on the node.
"""
