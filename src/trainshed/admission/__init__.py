"""Decides whether a job is accepted: fills in defaults, names every broken rule, checks quota."""

from trainshed.admission.check import check, resolve
from trainshed.admission.cluster import ClusterRow, cluster_of, equipped
from trainshed.admission.context import Scope
from trainshed.admission.defaults import expand

__all__ = ["ClusterRow", "Scope", "check", "cluster_of", "equipped", "expand", "resolve"]
