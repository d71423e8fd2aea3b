"""Checks a cluster for ``trainshed doctor --engine``, by the API and by two pods.

``run`` has the order of the findings.
"""
