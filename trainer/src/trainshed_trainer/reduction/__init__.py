"""The Reduction Server: an all-reduce through CPU hosts, its protocol, reducer and client.

Nothing is imported here: a reducer needs no torch, and a trainer that only asks for its rank
needs neither torch nor numpy.
"""
