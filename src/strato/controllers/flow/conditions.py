"""What a step waits for besides its targets: states of objects, services that answer, and paths in claims.

The controller reads objects, sends requests to a service's pods by their addresses (never to a name or address that a
user may choose), and starts a pod to check a claim (`claimlook`); all of these are in the flow's namespace. A condition
that does not hold becomes a text in the flow's status. So does one that cannot be checked, so that a failing or silent
service neither fails the flow nor blocks the controller.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from strato.api import catalog
from strato.api.core import PersistentVolumeClaim, Pod, Service
from strato.api.kinds import Kind
from strato.api.meta import Key
from strato.api.volcano.flow import ClaimPathProbe, FlowProbe, HttpGetProbe, JobFlow, ObjectProbe
from strato.api.waitfor import parse_expectation
from strato.client.cluster import Cluster
from strato.controllers.flow.claimlook import look_name, look_pod, look_verdict
from strato.controllers.flow.probes import NetworkProber, header_of
from strato.controllers.kube.endpoints import ports_of
from strato.errors import AlreadyExists, ApiError, Forbidden, NotFound, one_line

ASK_SECONDS: Final = 5.0
"""How long checking all conditions of a step may take; on a timeout they are checked again in the next attempt."""

FIRST_DELAY_SECONDS: Final = 2.0
MOST_DELAY_SECONDS: Final = 60.0
"""Delay before the first repeated check, and the longest one; each delay is `_GROWTH` times the one before."""

_GROWTH: Final = 1.5
_MOST_ASKED: Final = 8
"""Most pods of a service that get a request at once; the condition holds if one answers with success."""


def delay_seconds(attempts: int) -> float:
    """Return the delay before the next check, after ``attempts`` delays before it."""
    return min(FIRST_DELAY_SECONDS * _GROWTH ** min(attempts, 20), MOST_DELAY_SECONDS)


def services_of(probe: FlowProbe) -> list[HttpGetProbe]:
    """Return the HTTP entries about a Service; the others are about the targets' pods."""
    return [entry for entry in probe.http_get_list if entry.service_name]


def has_conditions(probe: FlowProbe) -> bool:
    """Return whether a probe has conditions that are not about the targets."""
    return bool(probe.object_list or probe.claim_path_list or services_of(probe))


@dataclass(frozen=True, slots=True)
class Conditions:
    """Checks the conditions of steps. Its only writes create and delete the pods that check claims."""

    cluster: Cluster
    prober: NetworkProber
    pod: Callable[[Key], Pod | None]
    """Returns a pod from the controller's informer."""
    image: str
    """Image of the pods that check claims."""

    async def unmet(self, flow: JobFlow, step: str, probe: FlowProbe, *, look_again: bool) -> list[str]:
        """Return a text for each condition of a step that does not hold; empty when all hold.

        Args:
            flow: The flow.
            step: Name of the step.
            probe: The step's probe.
            look_again: Whether to delete a pod that did not find its path, so that the next check starts another.
        """
        namespace = flow.metadata.namespace
        asks = [
            *(self._object(namespace, entry) for entry in probe.object_list),
            *(self._service(namespace, entry) for entry in services_of(probe)),
            *(self._claim(flow, step, entry, look_again=look_again) for entry in probe.claim_path_list),
        ]
        try:
            async with asyncio.timeout(ASK_SECONDS):
                return [text for text in await asyncio.gather(*asks) if text]
        except TimeoutError:
            return [f"not all of its conditions could be asked within {ASK_SECONDS:g} s"]

    async def clear(self, flow: JobFlow, step: str, probe: FlowProbe) -> None:
        """Delete the pods that checked claims for a step, whose job is made now."""
        for entry in probe.claim_path_list:
            await self._remove(Key(flow.metadata.namespace, look_name(flow, step, entry)))

    async def _object(self, namespace: str, entry: ObjectProbe) -> str:
        what = f"{entry.kind} {entry.name}"
        try:
            wanted = parse_expectation(entry.condition or "create")
            obj = await self.cluster.get(kind_of_object(entry), entry.name, namespace)
        except ValueError as error:  # the flow was stored before admission validated conditions
            return f"{what}: {error}"
        except Forbidden:
            return f"{what}: the controllers may not read it; grant them 'get' on {kind_of_object(entry).resource}"
        except NotFound:
            obj = None
        except ApiError as error:
            return f"{what} cannot be read: {one_line(error)}"
        verdict = wanted.verdict(obj)
        return f"{what} {verdict} (waits for {wanted.text})" if verdict else ""

    async def _service(self, namespace: str, entry: HttpGetProbe) -> str:
        what = f"the service {entry.service_name}"
        try:
            service = await self.cluster.get(Service, entry.service_name, namespace)
            selector = service.spec.selector
            if not selector:
                return f"{what} selects no pods"
            labels = ",".join(f"{name}={value}" for name, value in selector.items())
            pods = (await self.cluster.list(Pod, namespace, label_selector=labels)).items
        except NotFound:
            return f"{what} does not exist"
        except ApiError as error:
            return f"{what} cannot be read: {one_line(error)}"
        running = [pod for pod in pods if pod.status.phase == "Running" and pod.status.pod_ip][:_MOST_ASKED]
        if not running:
            return f"{what} has no pod that runs"
        answers = await asyncio.gather(*(self._answers(service, pod, entry) for pod in running))
        return (
            "" if any(answers) else f"{what} does not answer GET {entry.path or '/'} on port {entry.port} with success"
        )

    async def _answers(self, service: Service, pod: Pod, entry: HttpGetProbe) -> bool:
        matching = [port for port in service.spec.ports if port.port == entry.port]
        one = Service(metadata=service.metadata, spec=type(service.spec)(ports=tuple(matching)))
        ports = ports_of(one, pod)
        if not ports:
            return False
        return await self.prober.answers(pod.status.pod_ip, ports[0]["port"], entry.path, header_of(entry))

    async def _claim(self, flow: JobFlow, step: str, entry: ClaimPathProbe, *, look_again: bool) -> str:
        """Return why a path is not known to exist; see that a pod looks for it.

        A step waits for as long as its flow lives, so there is no last attempt; `delay_seconds` between attempts bounds
        how often a pod is started, in the end one a minute.
        """
        namespace = flow.metadata.namespace
        key = Key(namespace, look_name(flow, step, entry))
        pod = self.pod(key)
        try:
            if pod is None or pod.metadata.deletion_timestamp is not None:
                return await self._look(flow, step, entry)
            verdict = look_verdict(entry, pod)
            if pod.status.phase == "Failed" and look_again:
                await self._remove(key)
        except ApiError as error:
            return f"{entry.path} in the claim {entry.claim_name} cannot be looked for: {one_line(error)}"
        return verdict

    async def _look(self, flow: JobFlow, step: str, entry: ClaimPathProbe) -> str:
        namespace = flow.metadata.namespace
        try:
            await self.cluster.get(PersistentVolumeClaim, entry.claim_name, namespace)
        except NotFound:
            return f"the claim {entry.claim_name} does not exist"
        with suppress(AlreadyExists):  # the informer has not shown the pod yet, or the old one is terminating
            await self.cluster.create(catalog.POD, look_pod(flow, step, entry, self.image), namespace)
        return f"a pod looks for {entry.path} in the claim {entry.claim_name}"

    async def _remove(self, key: Key) -> None:
        with suppress(NotFound):
            await self.cluster.delete(Pod, key.name, key.namespace)


def kind_of_object(entry: ObjectProbe) -> Kind:
    """Return the kind of the object in a condition; an unknown kind without ``resource`` gets a regular plural."""
    version = entry.api_version or "v1"
    known = catalog.find_named(version, entry.kind)
    if known is not None and not entry.resource:
        return known
    group, _, bare = version.rpartition("/")
    return Kind(group, bare, entry.kind, entry.resource or _plural(entry.kind.lower()))


def _plural(word: str) -> str:
    if word.endswith(("s", "x", "ch", "sh")):
        return f"{word}es"
    return f"{word[:-1]}ies" if word.endswith("y") else f"{word}s"
