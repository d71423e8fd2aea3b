"""Requests to a cluster's API server, and current objects by list and watch.

The official client loads the configuration of the cluster (``library``), urllib3 carries requests
(``transport``), and the loop that keeps objects current is Trainshed's own (``watch``).
"""
