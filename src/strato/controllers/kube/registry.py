"""The table of stock controllers."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from strato.client.cluster import Cluster
from strato.client.informer import Informers
from strato.clock import Clock
from strato.controllers.reconcile import Controller

KUBE: Mapping[str, Callable[[Cluster, Informers, Clock], Controller]] = {}
"""Stock controllers by name."""
