"""The gateway for replicas: metadata server, proxy and Google's storage hosts on one port."""
