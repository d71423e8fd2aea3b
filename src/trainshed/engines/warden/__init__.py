"""Replicas on other machines: a launcher on the first node, and a warden beside each replica.

The launcher is the supervisor of the attempt (``engines.supervise``) with replicas that it reaches
over TCP; a warden owns one of them.  Both run from one archive, with nothing but Python 3.9.
"""
