"""Room `client`: talk to any Kubernetes API, in this process or far away, through one interface.

- `Cluster` (`cluster`): the calls; `local.LocalCluster` and `http.HttpCluster` are its transports, both thin
  over `calls.WireCluster` and `codec`.
- `link`: a server in another process of ours, for `local.LocalCluster` to call.
- `kubeconfig`: where a remote cluster is and who we are there.
- `informer`, `reflector`: a local copy of a collection that keeps itself current.
- `workqueue`, `retry`, `backoff`: doing things again, politely.
- `statusqueue`: what is reported of objects (statuses, conditions, events), coalesced and retried until confirmed.
- `leases`: one leader among several; `events`: what happened to an object, for its users.
"""

from strato.client.cluster import Cluster, EventType, Json, ListPage, PatchType, WatchEvent

__all__ = ["Cluster", "EventType", "Json", "ListPage", "PatchType", "WatchEvent"]
