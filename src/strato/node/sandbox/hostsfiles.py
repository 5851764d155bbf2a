"""Keeps ``/etc/hosts`` of this node's pods up to date with the pods of the same headless service."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from strato.api.core import Pod
from strato.node import beneath
from strato.node.sandbox.hosts import Peer, host_network_file, hosts_file, peer_of
from strato.node.sandbox.podworker import PodWorker
from strato.node.timers import Timers

_HOSTS_BYTES = 1 << 20
HOSTS_DELAY_SECONDS = 0.02
"""How long changes are collected before they are written."""


class HostsFiles:
    """See the module."""

    def __init__(self, workers: Mapping[str, PodWorker], timers: Timers, others: Callable[[], Iterable[Pod]]) -> None:
        self._workers = workers
        self._timers = timers
        self._others = others
        self._stale: set[tuple[str, str]] = set()

    def mark(self, pod: Pod) -> None:
        """Schedule new files for the siblings of a pod that was added, changed or removed."""
        if not pod.spec.subdomain:
            return
        if not self._stale:
            self._timers.after(HOSTS_DELAY_SECONDS, self._write)
        self._stale.add((pod.metadata.namespace, pod.spec.subdomain))

    def content(self, pod: Pod, ip: str) -> str:
        """Return the file of a pod."""
        aliases = [(alias.ip, alias.hostnames) for alias in pod.spec.host_aliases]
        if pod.spec.host_network:
            try:
                machine = beneath.read_regular("/etc/hosts", _HOSTS_BYTES).decode(errors="replace")
            except OSError:
                machine = ""
            return host_network_file(machine, aliases)
        return hosts_file(peer_of(pod, ip), self._siblings(pod), aliases)

    def _write(self) -> None:
        groups, self._stale = self._stale, set()
        for worker in self._workers.values():
            pod = worker.pod
            if (pod.metadata.namespace, pod.spec.subdomain) in groups and worker.record.pod_ip:
                worker.sandbox.write_hosts(self.content(pod, worker.sandbox.ip))

    def _siblings(self, pod: Pod) -> list[Peer]:
        """All pods of the same headless service that have an address, on whatever node."""
        if not pod.spec.subdomain:
            return []
        group = (pod.metadata.namespace, pod.spec.subdomain)
        found = {
            uid: peer_of(worker.pod, worker.sandbox.ip)
            for uid, worker in self._workers.items()
            if (worker.namespace, worker.pod.spec.subdomain) == group
        }
        for other in self._others():
            is_sibling = (other.metadata.namespace, other.spec.subdomain) == group
            if is_sibling and other.status.pod_ip and not other.is_finished:
                found.setdefault(other.metadata.uid, peer_of(other, other.status.pod_ip))
        return list(found.values())
