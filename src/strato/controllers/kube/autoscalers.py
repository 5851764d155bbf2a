"""HorizontalPodAutoscalers: every 15 seconds, set the replicas that bring the use of pods to its target.

`scaling` decides; this controller reads metrics and reads and writes scales. Source: autoscaling/v2.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import ClassVar, Final, NamedTuple
from urllib.parse import quote

import msgspec

from strato.api import catalog
from strato.api.autoscaling import HorizontalPodAutoscaler, MetricSource, MetricSpec, ScaleTarget
from strato.api.core import Pod
from strato.api.kinds import Kind
from strato.api.meta import Key
from strato.api.metrics import PodMetrics
from strato.api.quantity import Format, Quantity, milli
from strato.api.selectors import InvalidSelector, Selector, parse_selector
from strato.client.cluster import Json
from strato.client.informer import Change
from strato.clock import format_time, parse_time
from strato.controllers.context import ControllerContext
from strato.controllers.kube import scaling
from strato.controllers.kube.scaling import History, Proposal, Unknown, UsageSample
from strato.controllers.reconcile import KeyedController
from strato.errors import ApiError, NotFound

PERIOD_SECONDS: Final = 15.0
_KIND = catalog.HORIZONTALPODAUTOSCALER
_API_VERSION = re.compile(r"([a-z0-9.-]+/)?v[a-z0-9]+")
"""API versions allowed in a request's path. The controller has more rights than the user who wrote the autoscaler, so
the text must not change which path is requested."""
_UNABLE: Final = "the HPA was unable to compute the replica count: "


class _Refused(Exception):
    """The target cannot be scaled now; holds the condition and event that report why."""

    def __init__(self, condition: str, reason: str, message: str, reported: str = "", event: str = "") -> None:
        super().__init__(message)
        self.condition, self.reason, self.message = condition, reason, message
        self.reported, self.event = reported or message, event or reason


class _Scale(NamedTuple):
    """The scale of a workload."""

    path: str
    replicas: int
    selector: Selector
    text: str
    """The selector as text."""


class AutoscalerController(KeyedController):
    """See the module."""

    name: ClassVar[str] = "kube-horizontal-pod-autoscaler-controller"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._autoscalers = context.informers.informer(HorizontalPodAutoscaler)
        self._histories: dict[Key, History] = {}
        self._selectors: dict[Key, Selector] = {}
        """The selector that each autoscaler used last, to find autoscalers that share pods."""
        self._autoscalers.add_handler(self._on_autoscaler)

    def _on_autoscaler(self, change: Change[HorizontalPodAutoscaler]) -> None:
        if change.new is None:
            self._histories.pop(change.key, None)
            self._selectors.pop(change.key, None)
        elif change.old is None or change.old.spec != change.new.spec:  # ignores our own status writes
            self.queue.add(change.key)

    async def reconcile(self, key: Key) -> float | None:
        """Scale one workload, and write the autoscaler's status."""
        autoscaler = self._autoscalers.get(key)
        if autoscaler is None:
            return None
        status = _Status(autoscaler, self.clock.now())
        try:
            await self._scale(key, autoscaler, status)
        except _Refused as refusal:
            if refusal.condition:
                status.set(refusal.condition, "False", refusal.reason, refusal.message)
            self._recorder.event(autoscaler, "Warning", refusal.event, refusal.reported)
        await self.write_status(_KIND, key, status.body())  # the server drops a write that changes nothing
        return PERIOD_SECONDS

    async def _scale(self, key: Key, autoscaler: HorizontalPodAutoscaler, status: _Status) -> None:
        spec, now = autoscaler.spec, self.clock.now()
        scale = await self._read_scale(spec.scale_target_ref, key.namespace)
        status.set(
            "AbleToScale", "True", "SucceededGetScale", "the HPA controller was able to get the target's current scale"
        )
        current = status.current = scale.replicas
        history = self._histories.setdefault(key, History([(now, current)]))
        if current == 0:
            text = "scaling is disabled since the replica count of the target is zero"
            status.set("ScalingActive", "False", "ScalingDisabled", text)
            status.desired = 0
            return
        if current > spec.max_replicas:
            desired, why = spec.max_replicas, "Current number of replicas above Spec.MaxReplicas"
        elif current < spec.min_replicas:
            desired, why = spec.min_replicas, "Current number of replicas below Spec.MinReplicas"
        else:
            proposed, metric = await self._by_metrics(key, autoscaler, scale, status)
            why = f"{metric} above target" if proposed > current else "All metrics below target"
            found = scaling.normalise(spec, history, current, proposed, now)
            desired = found.replicas
            status.set("AbleToScale", "True", *found.able)
            status.set("ScalingLimited", "True" if found.is_limited else "False", *found.limited)
        status.desired = desired
        if desired == current:
            return
        try:
            body = msgspec.json.encode({"spec": {"replicas": desired}})
            await self._cluster.raw("PATCH", scale.path, body=body, content_type="application/merge-patch+json")
        except ApiError as error:
            status.desired = autoscaler.status.desired_replicas
            text = f"the HPA controller was unable to update the target scale: {error}"
            reported = f"New size: {desired}; reason: {why}; error: {error}"
            raise _Refused("AbleToScale", "FailedUpdateScale", text, reported, "FailedRescale") from error
        text = f"the HPA controller was able to update the target scale to {desired}"
        status.set("AbleToScale", "True", "SucceededRescale", text)
        status.scaled_at = format_time(now)
        self._recorder.event(autoscaler, "Normal", "SuccessfulRescale", f"New size: {desired}; reason: {why}")
        history.note(now, current, desired)

    async def _read_scale(self, target: ScaleTarget, namespace: str) -> _Scale:
        try:
            plural = await self._plural(target)
            group = f"/apis/{target.api_version}" if "/" in target.api_version else f"/api/{target.api_version}"
            path = f"{group}/namespaces/{namespace}/{plural}/{quote(target.name, safe='')}/scale"
            scale = msgspec.json.decode(await self._cluster.raw("GET", path))
        except ApiError as error:
            text = f"the HPA controller was unable to get the target's current scale: {error}"
            raise _Refused("AbleToScale", "FailedGetScale", text, str(error)) from error
        text = (scale.get("status") or {}).get("selector") or ""
        if not text:
            missing = "the HPA target's scale is missing a selector"
            raise _Refused("ScalingActive", "InvalidSelector", missing, "selector is required", "SelectorRequired")
        try:
            selector = parse_selector(text)
        except InvalidSelector as error:
            text = f"couldn't convert selector into a corresponding internal selector object: {error}"
            raise _Refused("ScalingActive", "InvalidSelector", text) from error
        return _Scale(path, (scale.get("spec") or {}).get("replicas") or 0, selector, text)

    async def _plural(self, target: ScaleTarget) -> str:
        """Return the plural resource name of the target's kind.

        Raises:
            ApiError: The API server does not serve the kind.
        """
        if not _API_VERSION.fullmatch(target.api_version):
            raise NotFound(f'no matches for kind "{target.kind}" in version "{target.api_version}"')
        known: Kind | None = catalog.find_named(target.api_version, target.kind)
        if known is not None:
            return known.plural
        prefix = "/apis" if "/" in target.api_version else "/api"
        listed = msgspec.json.decode(await self._cluster.raw("GET", f"{prefix}/{target.api_version}"))
        for one in listed.get("resources") or ():
            if one["kind"] == target.kind and "/" not in one["name"]:
                return str(one["name"])
        raise NotFound(f'no matches for kind "{target.kind}" in version "{target.api_version}"')

    async def _by_metrics(
        self, key: Key, autoscaler: HorizontalPodAutoscaler, scale: _Scale, status: _Status
    ) -> tuple[int, str]:
        """Return the largest number of replicas that a metric proposes, and which metric that is."""
        pods = (await self._cluster.list(Pod, key.namespace, label_selector=scale.text)).items
        self._check_sole(key, scale.selector, pods)
        try:
            measured = (await self._cluster.list(PodMetrics, key.namespace, label_selector=scale.text)).items
        except ApiError as error:
            raise _Refused(
                "ScalingActive",
                "FailedGetResourceMetric",
                f"{_UNABLE}unable to fetch metrics from resource metrics API: {error}",
            ) from error
        best, why, failures = 0, "", []
        for metric in autoscaler.spec.metrics:
            try:
                proposal, name, shown = self._propose(key.namespace, autoscaler, metric, pods, measured, scale.replicas)
            except Unknown as error:
                failures.append((f"FailedGet{metric.type}Metric", str(error)))
                continue
            status.metrics.append(shown)
            if proposal.replicas > best:
                best, why = proposal.replicas, name
        for reason, text in failures:
            self._recorder.event(autoscaler, "Warning", reason, text)
        total = len(autoscaler.spec.metrics)
        if failures and (len(failures) == total or best < scale.replicas):
            reason, text = failures[0]
            reported = f"invalid metrics ({len(failures)} invalid out of {total}), first error is: {text}"
            raise _Refused("ScalingActive", reason, f"{_UNABLE}{text}", reported, "FailedComputeMetricsReplicas")
        text = f"the HPA was able to successfully calculate a replica count from {why}"
        status.set("ScalingActive", "True", "ValidMetricFound", text)
        return best, why

    def _check_sole(self, key: Key, selector: Selector, pods: Sequence[Pod]) -> None:
        """Refuse pods that another autoscaler's selector matches too."""
        self._selectors[key] = selector
        several = sorted(
            other.name
            for other, theirs in self._selectors.items()
            if other.namespace == key.namespace and any(theirs.matches(pod.metadata.labels) for pod in pods)
        )
        if len(several) > 1:
            text = f"pods by selector {selector} are controlled by multiple HPAs: {several}"
            raise _Refused("ScalingActive", "AmbiguousSelector", text)

    def _propose(
        self,
        namespace: str,
        autoscaler: HorizontalPodAutoscaler,
        metric: MetricSpec,
        pods: Sequence[Pod],
        measured: Sequence[PodMetrics],
        current: int,
    ) -> tuple[Proposal, str, Json]:
        """Return the replicas that a metric proposes, its name, and its entry of ``status.currentMetrics``."""
        source = metric.resource or metric.container_resource
        if source is None:
            raise Unknown(_no_such_api(metric, namespace))
        resource, container = source.name, source.container
        near, target = scaling.tolerances(autoscaler.spec.behavior), source.target
        words = "usage" if target.average_value is not None else "utilization"
        try:
            samples = _samples(measured, resource, container)
            if not samples:
                raise Unknown(
                    "unable to get metrics for resource " + resource + ": no metrics returned from resource metrics API"
                )
            proposal = scaling.propose(target, resource, container, pods, samples, current, near, self.clock.now())
        except Unknown as error:
            raise Unknown(f"failed to get {resource} {words}: {error}") from error
        unit = Format.BINARY_SI if resource == "memory" else Format.DECIMAL_SI
        now: Json = {"averageValue": str(Quantity(proposal.average * 1_000_000, unit))}
        if proposal.percent is not None:
            now["averageUtilization"] = proposal.percent
        kind = "" if metric.resource is not None else "container "
        name = f"{resource} {kind}resource"
        if proposal.percent is not None:
            name += " utilization (percentage of request)"
        member = "resource" if metric.resource is not None else "containerResource"
        named = {"name": resource, **({"container": container} if container else {})}
        return proposal, name, {"type": metric.type, member: {**named, "current": now}}


def _samples(measured: Sequence[PodMetrics], resource: str, container: str) -> Mapping[str, UsageSample]:
    """Return how much of a resource each pod uses, or one container of each pod."""
    found = {}
    for pod in measured:
        chosen = [one for one in pod.containers if container in ("", one.name) and resource in one.usage]
        if chosen:
            total = sum(milli(one.usage[resource]) for one in chosen)
            found[pod.metadata.name] = UsageSample(total, parse_time(pod.timestamp), float(pod.window.rstrip("s") or 0))
    return found


def _no_such_api(metric: MetricSpec, namespace: str) -> str:
    """Return why a metric cannot be read whose API is not served."""
    custom = "unable to fetch metrics from custom metrics API: no custom metrics API (custom.metrics.k8s.io) registered"
    if metric.external is not None:
        name = metric.external.metric.name
        why = "unable to fetch metrics from external metrics API: the server could not find the requested resource"
        return f"unable to get external metric {namespace}/{name}: {why} (get {name}.external.metrics.k8s.io)"
    source: MetricSource = metric.pods or metric.object or MetricSource()
    return f"unable to get metric {source.metric.name}: {custom}"


class _Status:
    """The status of an autoscaler, as it is to be written."""

    def __init__(self, autoscaler: HorizontalPodAutoscaler, now: float) -> None:
        self._old, self._now = autoscaler.status, format_time(now)
        self.current, self.desired = self._old.current_replicas, self._old.desired_replicas
        self.scaled_at = self._old.last_scale_time
        self.metrics: list[Json] = []
        self._conditions: dict[str, Json] = {one.type: msgspec.to_builtins(one) for one in self._old.conditions}

    def set(self, type_: str, status: str, reason: str, message: str) -> None:
        """Set a condition; its ``lastTransitionTime`` changes only with its status."""
        old = self._conditions.get(type_)
        since = old.get("lastTransitionTime") if old is not None and old.get("status") == status else self._now
        self._conditions[type_] = {
            "type": type_,
            "status": status,
            "reason": reason,
            "message": message,
            "lastTransitionTime": since,
        }

    def body(self) -> Json:
        """Return the status."""
        return {
            "currentReplicas": self.current,
            "desiredReplicas": self.desired,
            "lastScaleTime": self.scaled_at,
            "currentMetrics": self.metrics or None,
            "conditions": list(self._conditions.values()),
        }
