"""``serviceaccounts/token``: a TokenRequest becomes a token, which is returned once and never stored."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Protocol

from strato.api import catalog
from strato.api.kinds import Kind
from strato.api.status import aggregate, invalid, invalid_value, not_found
from strato.api.wire import Request, Response, User
from strato.clock import format_time
from strato.errors import BadRequest, Cause, Conflict, Invalid, NotFound
from strato.server import preparation
from strato.server.path import ResourcePath
from strato.server.preparation import Json, encode
from strato.server.registry import Served
from strato.server.rest import storing
from strato.server.rest.largewrites import admitted
from strato.server.rest.state import State

API_AUDIENCE = "https://kubernetes.default.svc.cluster.local"
"""The audience of a token that requests none: this API, with the issuer's name."""
_TOKEN_REQUEST = Kind("authentication.k8s.io", "v1", "TokenRequest", "tokenrequests")
_DEFAULT_SECONDS, _MIN_SECONDS, _MAX_SECONDS = 3600, 600, 1 << 32
_BOUND = {("v1", "Pod"): catalog.POD, ("v1", "Secret"): catalog.SECRET, ("v1", "Node"): catalog.NODE}


class Tokens(Protocol):
    """Identifies tokens, and issues those of service accounts."""

    def identify(self, token: str, audiences: Sequence[str] = ()) -> tuple[User, Sequence[str]] | None:
        """Return the user of a token and those of ``audiences`` it is for; without audiences, of this API's.

        None if the token is unknown, or for none of them.
        """

    def issue(
        self, account: Json, *, audiences: Sequence[str], seconds: int, bound: Sequence[Json], token_id: str
    ) -> str:
        """Return a new token of a service account, which is valid only while the objects it is bound to exist."""

    def use_objects(self, look_up: Callable[[Kind, str, str], Json | None]) -> None:
        """Use ``look_up`` from now on to check that accounts and bound objects still exist."""


class TokenRequests:
    """Answers token requests."""

    def __init__(self, state: State, tokens: Tokens | None) -> None:
        self._state, self._tokens = state, tokens

    def create(self, request: Request, target: ResourcePath, served: Served) -> Response | Awaitable[Response]:
        """Issue a token of the account.

        Raises:
            NotFound: There is no such account or bound object, or this server has no signing key.
            Invalid: The requested duration is out of range; every cause is listed.
        """
        if self._tokens is None:
            raise NotFound("the server could not find the requested resource")
        asked = preparation.read_typed(_TOKEN_REQUEST, request)
        spec = asked.get("spec") or {}
        _check_named(asked["metadata"], target)
        account = self._state.require(served.kind, target.namespace, target.name)
        uid = asked["metadata"].get("uid")
        if uid and uid != account["metadata"]["uid"]:
            text = f"the UID in the token request ({uid}) does not match the UID of the service account "
            raise _conflict(_TOKEN_REQUEST, target.name, f"{text}({account['metadata']['uid']})")
        seconds = spec.get("expirationSeconds", _DEFAULT_SECONDS)
        _check_seconds(seconds)
        admission_request = storing.admission_request(request, target, served.kind, "CREATE", asked, None)
        self._state.rights.check(admission_request, target.name)
        if self._state.dynamic.concerns(served.kind, "CREATE", target.subresource):
            issue = partial(self._issued, account, asked, seconds, target)
            return admitted(self._state, request, admission_request, issue)
        return self._issued(account, asked, seconds, target)

    def _issued(self, account: Json, asked: Json, seconds: int, target: ResourcePath) -> Response:
        """Issue the token of a valid request, and return the answer."""
        spec = asked.get("spec") or {}
        reference, audiences = spec.get("boundObjectRef"), spec.get("audiences") or [API_AUDIENCE]
        assert self._tokens is not None, "checked before"
        token = self._tokens.issue(
            account,
            audiences=audiences,
            seconds=seconds,
            bound=self._bound(reference, target) if reference else (),
            token_id=preparation.new_uid(self._state.rng),
        )
        now = self._state.clock.now()
        answer = {
            "kind": "TokenRequest",
            "apiVersion": "authentication.k8s.io/v1",
            "metadata": {
                "name": target.name,
                "namespace": target.namespace,
                "uid": account["metadata"]["uid"],
                "creationTimestamp": format_time(now),
            },
            "spec": {"audiences": audiences, "expirationSeconds": seconds, "boundObjectRef": reference},
            "status": {"token": token, "expirationTimestamp": format_time(now + seconds)},
        }
        return Response(201, encode(answer))

    def _bound(self, reference: Json, target: ResourcePath) -> Sequence[Json]:
        """Return the objects that a token is to be bound to; for a pod its node too."""
        namespace = target.namespace
        place = (reference.get("apiVersion") or "", reference.get("kind") or "")
        kind, name = _BOUND.get(place), reference.get("name") or ""
        if kind is None:
            raise BadRequest(f"cannot bind token to object of type /{place[0]}, Kind={place[1]}")
        found = self._state.latest(kind, namespace if kind.namespaced else "", name)
        if found is None:
            raise not_found(kind, name)
        uid = reference.get("uid")
        if uid and uid != found["metadata"]["uid"]:
            text = (
                f"the UID in the bound object reference ({uid}) does not match the UID in record. "
                "The object might have been deleted and then recreated"
            )
            raise _conflict(kind, name, text)
        bound = [{**found, "kind": kind.name}]
        if kind is catalog.POD:
            if found["spec"].get("serviceAccountName") != target.name:
                text = (
                    f'cannot bind token for serviceaccount "{target.name}" to pod running with different serviceaccount'
                )
                raise BadRequest(f"{text} name.")
            node_name = found["spec"].get("nodeName")
            node = self._state.latest(catalog.NODE, "", node_name) if node_name else None
            if node is not None:
                bound.append({**node, "kind": "Node"})
        return bound


def _check_named(metadata: Json, target: ResourcePath) -> None:
    """Check that a request with a name or namespace has those of the account in its path."""
    causes = [
        invalid_value(f"metadata.{member}", metadata[member], f"must match the service account {member} if specified")
        for member, wanted in (("name", target.name), ("namespace", target.namespace))
        if metadata.get(member) and metadata[member] != wanted
    ]
    if causes:
        raise invalid(_TOKEN_REQUEST, target.name, causes)


def _conflict(kind: Kind, name: str, text: str) -> Conflict:
    details = {"name": name, **({"group": kind.group} if kind.group else {}), "kind": kind.name}
    full = f"{kind.name}.{kind.group}" if kind.group else kind.name
    return Conflict(f'Operation cannot be fulfilled on {full} "{name}": {text}', details=details)


def _check_seconds(seconds: int) -> None:
    causes: list[Cause] = []
    if seconds < _MIN_SECONDS:
        causes.append(_bad_seconds(seconds, "may not specify a duration less than 10 minutes"))
    if seconds > _MAX_SECONDS:
        causes.append(_bad_seconds(seconds, "may not specify a duration larger than 2^32 seconds"))
    if causes:
        details = {"group": "authentication.k8s.io", "kind": "TokenRequest"}
        text = f'TokenRequest.authentication.k8s.io "" is invalid: {aggregate(causes)}'
        raise Invalid(text, causes=causes, details=details)


def _bad_seconds(seconds: int, text: str) -> Cause:
    return invalid_value("spec.expirationSeconds", seconds, text)
