"""An API server, controllers and a pod runner that behave as Kubernetes 1.36 does.

Tests start it on the loopback interface; recorded traces of a real cluster say how it must
answer (``tests/k8s/traces``).  It is no Kubernetes: what no engine and no ``kubectl`` of the
tests needs is absent, and asking for it is a 404.
"""
