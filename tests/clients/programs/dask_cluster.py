"""What dask-kubernetes does on a cluster with its operator: a cluster that computes, grows, shrinks and goes."""

from __future__ import annotations

import sys
import time

from dask_kubernetes.operator import KubeCluster
from distributed import Client

NAMESPACE, IMAGE = sys.argv[1:3]


def square(number: int) -> int:
    return number * number


def where(number: int) -> str:
    import socket

    return socket.gethostname()


with KubeCluster(
    name="study", namespace=NAMESPACE, image=IMAGE, n_workers=1, resource_timeout=240, quiet=True
) as cluster:
    print("ok a cluster is made", flush=True)
    with Client(cluster, timeout="120s") as client:
        client.wait_for_workers(1, timeout=120)
        assert sum(client.gather(client.map(square, range(100)))) == 328350
        print("ok it computes in a pod", flush=True)
        cluster.scale(3)
        client.wait_for_workers(3, timeout=180)
        hosts = set(client.gather(client.map(where, range(60), pure=False)))
        assert len(hosts) > 1, hosts
        assert all(host.startswith("study-default-worker-") for host in hosts), hosts
        print("ok it grows", flush=True)
        cluster.scale(1)
        while len(client.scheduler_info()["workers"]) > 1:
            time.sleep(0.2)
        assert client.submit(square, 12).result(timeout=120) == 144
        print("ok it shrinks", flush=True)
print("ok it is closed", flush=True)
