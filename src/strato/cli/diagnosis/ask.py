"""Read from a cluster the facts that `cluster` judges. Nothing is written: its one create request is a dry run."""

from __future__ import annotations

import base64
import binascii
import email.utils
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from strato import __version__
from strato.api import catalog, trainingkinds
from strato.api.kinds import Kind
from strato.api.wire import Request
from strato.cli.diagnosis.cluster import OLDEST_MINOR, ClusterFacts, Json, LeaseFacts, WebhookFacts
from strato.clock import Clock, parse_time
from strato.decoding import UNDECODABLE
from strato.errors import ApiError, Forbidden, NotFound, Unauthorized

if TYPE_CHECKING:
    from strato.client.http import HttpCluster

T = TypeVar("T")
LEASES = {"scheduler": "volcano", "controllers": "vc-controller-manager"}
_NAMESPACE = "volcano-system"
_PRETENDED = {
    "apiVersion": catalog.QUEUE.api_version,
    "kind": "Queue",
    "metadata": {"name": "strato-doctor"},
    "spec": {"weight": 1},
}


async def cluster_facts(cluster: HttpCluster, clock: Clock, *, named_by: str, kubectl: str) -> ClusterFacts:
    """Return the facts about a cluster that `strato.cli.diagnosis.cluster.findings` judges."""
    certificate = cluster.config.certificate
    facts = ClusterFacts(
        address=cluster.config.server,
        named_by=named_by,
        strato=__version__,
        kubectl=kubectl,
        now=clock.now(),
        certificate_ends=ends_of(certificate.chain) if certificate is not None else None,
    )
    try:
        response = await cluster.exchange(Request("GET", "/version"))
        facts = replace(facts, version=_git_version(response.body), skew_seconds=_skew(response.headers, clock))
        if response.status in (401, 403):  # some clusters refuse /version; the list raises if all is refused
            await cluster.list(catalog.NAMESPACE, limit=1)
        elif not facts.version:
            return replace(facts, refusal=f"it is no Kubernetes API: GET /version was answered {response.status}")
    except Forbidden:
        pass
    except Unauthorized as error:
        return replace(facts, refusal=f"it does not know you: {error}")
    except ApiError as error:
        return replace(facts, refusal=" ".join(str(error).split()))
    return await _Asking(cluster, clock, facts).all()


class _Asking:
    """Requests to one cluster; kinds that the user may not read are collected in ``forbidden``."""

    def __init__(self, cluster: HttpCluster, clock: Clock, facts: ClusterFacts) -> None:
        self._cluster = cluster
        self._clock = clock
        self._facts = facts
        self._forbidden: list[str] = []

    async def all(self) -> ClusterFacts:
        facts = replace(self._facts, queues=await self._queues())
        definitions = await self._definitions()
        facts = replace(facts, off=_off(definitions or {}))
        if not facts.is_embedded:
            from strato.admission.webhook import SERVICES, Hooks, configurations
            from strato.admission.webhook.configuration import WebhookEndpoint
            from strato.api.crds import manifests, rules

            gone = trainingkinds.kinds_of(facts.off)
            is_old = bool(facts.minor) and facts.minor < OLDEST_MINOR
            expected = [rules.for_older(body) if is_old else body for body in manifests(gone)]
            services = tuple(one for one in SERVICES.values() if one.kind not in gone)
            hooks = configurations(Hooks(services=services), WebhookEndpoint(url="https://unused"))
            facts = replace(
                facts,
                definitions=definitions,
                expected={body["metadata"]["name"]: body for body in expected},
                webhooks=await self._webhooks({body["metadata"]["name"] for body in hooks}),
                expected_webhooks=[body["metadata"]["name"] for body in hooks],
                webhook_error=await self._pretend(),
                leases=await self._leases(),
            )
        return replace(facts, forbidden=tuple(self._forbidden))

    async def _list(self, kind: Kind) -> list[Json] | None:
        items: list[Json] = []
        token = ""
        try:
            while True:
                page = await self._cluster.list(kind, limit=500, continue_token=token)
                items += page.items
                token = page.continue_token
                if not token:
                    return items
        except NotFound:
            return []
        except ApiError:
            self._forbidden.append(kind.resource)
            return None

    async def _queues(self) -> Mapping[str, str] | None:
        items = await self._list(catalog.QUEUE)
        if items is None:
            return None
        if not items and not await self._is_served(catalog.QUEUE):
            return None  # the finding about definitions reports the missing one
        return {item["metadata"]["name"]: str(item.get("status", {}).get("state") or "") for item in items}

    async def _is_served(self, kind: Kind) -> bool:
        response = await self._cluster.exchange(Request("GET", f"/apis/{kind.api_version}"))
        return response.status == 200

    async def _definitions(self) -> Mapping[str, Json | None] | None:
        items = await self._list(catalog.CUSTOMRESOURCEDEFINITION)
        return None if items is None else {item["metadata"]["name"]: item for item in items}

    async def _webhooks(self, ours: set[str]) -> list[WebhookFacts] | None:
        found: list[WebhookFacts] = []
        for kind in (catalog.MUTATINGWEBHOOKCONFIGURATION, catalog.VALIDATINGWEBHOOKCONFIGURATION):
            items = await self._list(kind)
            if items is None:
                return None
            found += [_webhook_facts(item) for item in items if item["metadata"]["name"] in ours]
        return found

    async def _pretend(self) -> str:
        """Create a queue as a dry run, so that the API server calls the webhook; return the webhook's error, if any."""
        request = Request(
            "POST",
            catalog.QUEUE.path(""),
            {"dryRun": ["All"]},
            {"content-type": "application/json"},
            msgspec.json.encode(_PRETENDED),
        )
        response = await self._cluster.exchange(request)
        text = _message(response.body)
        return text if "webhook" in text and "calling" in text else ""

    async def _leases(self) -> Mapping[str, LeaseFacts] | None:
        items = await self._list(catalog.LEASE)
        if items is None:
            return None
        now = self._clock.now() + (self._facts.skew_seconds or 0.0)
        named = {item["metadata"]["name"]: item for item in items if item["metadata"]["namespace"] == _NAMESPACE}
        return {part: _lease_facts(named[name]["spec"], now) for part, name in LEASES.items() if name in named}


def _off(definitions: Mapping[str, Json | None]) -> list[str]:
    """Return the kinds of training jobs without a definition; empty where none of our definitions is installed."""
    if all(kind.resource not in definitions for kind in catalog.VOLCANO):
        return []
    switches = trainingkinds.SWITCHES.items()
    return [name for name, kinds in switches if all(kind.resource not in definitions for kind in kinds)]


def _lease_facts(spec: Mapping[str, Any], now: float) -> LeaseFacts:
    renewed = spec.get("renewTime")
    silent = now - parse_time(renewed) if renewed else 0.0
    return LeaseFacts(str(spec.get("holderIdentity") or ""), silent, float(spec.get("leaseDurationSeconds") or 0))


def _webhook_facts(body: Json) -> WebhookFacts:
    hooks = body.get("webhooks") or [{}]
    bundle = hooks[0].get("clientConfig", {}).get("caBundle") or ""
    try:
        ends = ends_of(base64.b64decode(bundle, validate=True)) if bundle else None
    except binascii.Error:
        ends = None
    return WebhookFacts(body["metadata"]["name"], bool(bundle), ends, hooks[0].get("failurePolicy") != "Ignore")


def ends_of(chain: bytes) -> float | None:
    """Return when the first certificate of a chain in PEM ends, None when there is none."""
    from cryptography import x509

    try:
        return x509.load_pem_x509_certificate(chain).not_valid_after_utc.timestamp()
    except ValueError:
        return None


def _git_version(body: bytes) -> str:
    try:
        found = msgspec.json.decode(body)
        return str(found.get("gitVersion") or "") if isinstance(found, dict) else ""
    except UNDECODABLE:
        return ""


def _message(body: bytes) -> str:
    try:
        found = msgspec.json.decode(body)
        return str(found.get("message") or "") if isinstance(found, dict) else ""
    except UNDECODABLE:
        return ""


def _skew(headers: Mapping[str, str], clock: Clock) -> float | None:
    try:
        theirs = email.utils.parsedate_to_datetime(headers["date"]).timestamp()
    except (KeyError, ValueError):
        return None
    skew = theirs - clock.now()
    return 0.0 if abs(skew) < 1.5 else skew  # the Date header is rounded to seconds
