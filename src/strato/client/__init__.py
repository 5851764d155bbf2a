"""Room `client`: call any Kubernetes API, in this process or over the network, through one interface.

- `Cluster` (`cluster`): the calls; `local.LocalCluster` and `http.HttpCluster` are its transports, both thin
  over `calls.WireCluster` and `codec`.
- `link`: a server in another process of ours, for `local.LocalCluster` to call.
- `kubeconfig`: the address of a remote cluster and our credentials for it.
- `informer`, `reflector`: a local copy of a collection that keeps itself current.
- `workqueue`, `retry`, `backoff`: reconcile keys, and retry failures with growing delays.
- `statusqueue`: write statuses, conditions and events, coalesced and retried until the API confirms them.
- `leases`: elect one leader among several processes; `events`: record Kubernetes Events about objects.
"""

from strato.client.cluster import Cluster, EventType, Json, ListPage, PatchType, WatchEvent

__all__ = ["Cluster", "EventType", "Json", "ListPage", "PatchType", "WatchEvent"]
