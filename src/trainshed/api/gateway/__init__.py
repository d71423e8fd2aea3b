"""The listener for replicas: metadata, proxy and Google's storage hosts on one port."""
