"""Specs of pods that were accepted before: the pods of a gang are alike, and what was found out about one spec holds.

A spec is known by the bytes in which it was sent. Of a known one, the types of its fields, its defaults and its rules
need not be looked at again; admission and the metadata, which differ from pod to pod and with the cluster's state, are
never skipped. A spec is learned when it is seen for the second time, so that pods of which each is different (by the
index in a variable, say) pay for a look-up only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from strato.server.objects import Json, encode
from strato.server.schema import typed

_KNOWN_MAX = 512
_SEEN_MAX = 4096
_SPEC_MAX_BYTES = 64 << 10
_decode_spec = msgspec.json.Decoder(dict[str, Any]).decode


class _Envelope(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """A pod as clients create it; one with a status or anything else takes the long way."""

    apiVersion: str
    kind: str
    metadata: dict[str, Any]
    spec: msgspec.Raw


_decode_envelope = msgspec.json.Decoder(_Envelope).decode


@dataclass(frozen=True, slots=True)
class KnownSpec:
    """What was found out about a spec."""

    defaulted: bytes
    """With its defaults, before admission."""
    admitted: Json
    """As admission left it when its rules were checked. Read only."""
    status: Json
    """The status such a pod begins with. Read only."""


class PodSpecs:
    """The specs that were accepted lately."""

    def __init__(self) -> None:
        self._known: dict[bytes, KnownSpec] = {}
        self._seen: dict[int, None] = {}

    def recognise(self, body: bytes) -> tuple[Json, KnownSpec | None, bytes]:
        """Return the pod with its spec defaulted, what is known of the spec, and its bytes.

        The pod is empty when it has to be read the long way; the bytes are empty when it is not worth learning.
        """
        try:
            envelope = _decode_envelope(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return {}, None, b""
        if envelope.kind != "Pod" or envelope.apiVersion != "v1":
            return {}, None, b""
        sent = bytes(envelope.spec)
        known = self._known.get(sent)
        if known is None:
            return {}, None, sent if self._again(sent) else b""
        if not _METADATA(envelope.metadata):
            return {}, None, b""
        spec = _decode_spec(known.defaulted)
        return {"apiVersion": "v1", "kind": "Pod", "metadata": envelope.metadata, "spec": spec}, known, b""

    def _again(self, sent: bytes) -> bool:
        key = hash(sent)
        if key in self._seen:
            return len(sent) <= _SPEC_MAX_BYTES
        if len(self._seen) >= _SEEN_MAX:
            del self._seen[next(iter(self._seen))]
        self._seen[key] = None
        return False

    def learn(self, sent: bytes, defaulted: bytes, pod: Json) -> None:
        """Remember a spec whose pod has passed every check.

        Args:
            sent: As `recognise` returned it.
            defaulted: The spec after defaulting.
            pod: The pod after admission.
        """
        if len(self._known) >= _KNOWN_MAX:
            del self._known[next(iter(self._known))]
        self._known[sent] = KnownSpec(defaulted, _decode_spec(encode(pod["spec"])), dict(pod["status"]))


_METADATA = typed.is_clean("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta")
