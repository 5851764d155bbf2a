"""The files of a pod's volumes on this machine: made before its containers start, and kept current while they run."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import msgspec

from strato.api import catalog
from strato.api.core import ConfigMap, Container, PersistentVolume, PersistentVolumeClaim, Pod, Secret, Volume
from strato.client.cluster import Cluster
from strato.errors import ApiError, MethodNotAllowed, NotFound
from strato.node.sandbox.atomicwriter import write_payload
from strato.node.sandbox.environment import ConfigProblem, DownwardContext, References, environment
from strato.node.sandbox.machine import Machine
from strato.node.sandbox.ownership import set_ownership
from strato.node.sandbox.volumes import (
    Inputs,
    Mount,
    check_host_path,
    make_empty_dir,
    mounts_of,
    own_directory,
    payload,
    referenced_objects,
)

_TOKEN_USE = 0.8
"""Share of a token's lifetime after which a pod gets a new one."""


class PodVolumes:
    """See the module."""

    def __init__(self, machine: Machine, pod: Pod, ip: str) -> None:
        self._machine = machine
        self._pod = pod
        self._ip = ip
        self._place = machine.node_paths.pod(pod.metadata.uid)
        self._locations: dict[str, str] = {}
        self._payloads: frozenset[str] = frozenset()
        self._references = References()
        self._token_texts: dict[tuple[str, int], str] = {}
        self._tokens_until = 0.0

    def update(self, pod: Pod) -> None:
        """Take the present pod; the next `refresh` writes the files that depend on what has changed."""
        self._pod = pod

    async def make(self) -> None:
        """Make all volumes.

        Raises:
            ConfigProblem: An object that the pod refers to is missing.
        """
        self._references = await self._read_references()
        self._token_texts = await self._tokens()
        payloads = set()
        inputs = Inputs(self._pod, self._references, self._downward(), self._token_texts)
        for volume in self._pod.spec.volumes:
            files = payload(volume, inputs)
            if files is None:
                self._locations[volume.name] = await self._locate(volume)
                continue
            directory = self._place.volume(volume.name)
            payloads.add(volume.name)
            self._locations[volume.name] = directory
            write_payload(directory, files, self._volume_group)
        self._payloads = frozenset(payloads)

    @property
    def has_payloads(self) -> bool:
        """Whether there are files that can change while the pod runs."""
        return bool(self._payloads)

    async def refresh(self, now: float) -> None:
        """Bring the files of configMap, secret, downwardAPI and projected volumes up to date.

        Containers that start later see the new values in their variables too, as with a kubelet.

        Args:
            now: A monotonic instant, by which tokens are renewed after `_TOKEN_USE` of their lifetime.

        Raises:
            ConfigProblem: An object that the pod refers to was deleted; the files stay unchanged.
            ApiError: The API server did not answer.
        """
        self._references = await self._read_references()
        if now >= self._tokens_until:
            self._token_texts = await self._tokens()
            lifetime = min((seconds for _, seconds in self._token_texts), default=0)
            self._tokens_until = now + _TOKEN_USE * lifetime
        inputs = Inputs(self._pod, self._references, self._downward(), self._token_texts)
        changed = {volume.name: payload(volume, inputs) for volume in self._pod.spec.volumes}
        for name, files in changed.items():
            if files is not None and os.path.isdir(self._place.home):
                write_payload(self._place.volume(name), files, self._volume_group)

    def variables(self, container: Container) -> dict[str, str]:
        """Return the variables of a container: those of services first, then those of its spec.

        Raises:
            ConfigProblem: A reference cannot be resolved.
        """
        links = self._machine.service_variables(self._pod)
        return environment(self._pod, container, self._references, self._downward(), links)

    def mounts(self, container: Container, variables: dict[str, str]) -> list[Mount]:
        """Return the mounts of a container's ``volumeMounts``.

        Raises:
            ConfigProblem: A sub-path leads out of its volume, or has a variable that is not there.
        """
        return mounts_of(container, self._locations, variables, self._payloads)

    @property
    def foreign(self) -> list[str]:
        """Paths of the volumes whose files do not belong to this pod alone."""
        return [
            self._locations[volume.name]
            for volume in self._pod.spec.volumes
            if volume.name not in self._payloads and self._locations[volume.name] != self._place.volume(volume.name)
        ]

    def remove(self) -> None:
        """Remove the volumes that exist only while the pod runs."""
        self._place.remove(self._memory_dir)
        for volume in self._pod.spec.volumes:
            if volume.empty_dir is not None:
                self._place.remove(self._place.volume(volume.name))

    async def _read_references(self) -> References:
        config_maps, secrets = referenced_objects(self._pod)
        namespace, cluster = self._pod.metadata.namespace, self._machine.cluster
        return References(
            {name: await _get(cluster, ConfigMap, name, namespace) for name in sorted(config_maps)},
            {name: await _get(cluster, Secret, name, namespace) for name in sorted(secrets)},
        )

    def _downward(self) -> DownwardContext:
        machine = self._machine
        return DownwardContext(machine.node_name, machine.host_ip, self._ip, machine.allocatable)

    async def _locate(self, volume: Volume) -> str:
        if volume.host_path is not None:
            return check_host_path(volume.host_path)
        if volume.persistent_volume_claim is not None:
            claim = volume.persistent_volume_claim
            return await self._claimed(claim.claim_name, read_only=claim.read_only)
        if volume.ephemeral is not None:
            return await self._claimed(f"{self._pod.metadata.name}-{volume.name}")
        if volume.empty_dir is None:  # an unsupported kind: the API server makes a volume without a kind an emptyDir
            raise ConfigProblem(f"volume {volume.name!r}: volumes of its kind cannot be mounted by this node")
        directory = self._place.volume(volume.name)
        if volume.empty_dir.medium == "Memory":
            directory = os.path.join(own_directory(self._memory_dir), volume.name)
        return make_empty_dir(directory, self._volume_group)

    @property
    def _memory_dir(self) -> str:
        return self._machine.node_paths.memory_dir(self._pod.metadata.uid)

    @property
    def _volume_group(self) -> int | None:
        """Group of the volumes' files; only root can give them one."""
        security = self._pod.spec.security_context
        if security is None or self._machine.runtime.isolation == "user" or os.geteuid() != 0:
            return None
        return security.fs_group

    async def _claimed(self, name: str, *, read_only: bool = False) -> str:
        cluster, namespace = self._machine.cluster, self._pod.metadata.namespace
        claim = await _get(cluster, PersistentVolumeClaim, name, namespace)
        if claim is None:
            raise ConfigProblem(f'persistentvolumeclaim "{name}" not found')
        if not claim.spec.volume_name:
            raise ConfigProblem(f'persistentvolumeclaim "{name}" is not bound to a volume yet')
        volume = await _get(cluster, PersistentVolume, claim.spec.volume_name, "")
        source = (volume.spec.host_path or volume.spec.local) if volume is not None else None
        if source is None:
            raise ConfigProblem(f"volume {claim.spec.volume_name!r} is no hostPath or local volume of this machine")
        path = check_host_path(source)
        security, group = self._pod.spec.security_context, self._volume_group
        runs = self._place.has_namespaces  # of a running pod the ownership of files is left to the pod
        if volume.spec.local is not None and not (read_only or runs) and group is not None and security is not None:
            await asyncio.to_thread(set_ownership, path, group, security.fs_group_change_policy)
        return path

    async def _tokens(self) -> dict[tuple[str, int], str]:
        tokens: dict[tuple[str, int], str] = {}
        for volume in self._pod.spec.volumes:
            for part in volume.projected.sources if volume.projected is not None else ():
                wanted = part.service_account_token
                if wanted is not None:
                    text = await self._token(wanted.audience, wanted.expiration_seconds)
                    if text is not None:
                        tokens[wanted.audience, wanted.expiration_seconds] = text
        return tokens

    async def _token(self, audience: str, expiration_seconds: int) -> str | None:
        pod = self._pod
        bound = {"kind": "Pod", "apiVersion": "v1", "name": pod.metadata.name, "uid": pod.metadata.uid}
        spec: dict[str, Any] = {"expirationSeconds": expiration_seconds, "boundObjectRef": bound}
        if audience:
            spec["audiences"] = [audience]
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        account = pod.spec.service_account_name or "default"
        path = catalog.SERVICEACCOUNT.path(pod.metadata.namespace, account, "token")
        try:
            answer = await self._machine.cluster.raw("POST", path, body=msgspec.json.encode(body))
        except (NotFound, MethodNotAllowed):  # without the account, or a server with tokens, the file is left out
            return None
        except ApiError as err:
            raise ConfigProblem(f"service account token of {account!r}: {err}") from err
        return str(msgspec.json.decode(answer)["status"]["token"])


async def _get(cluster: Cluster, view: type[Any], name: str, namespace: str) -> Any:
    try:
        return await cluster.get(view, name, namespace)
    except NotFound:
        return None
