"""Call the webhooks for one write: mutating ones one after another, validating ones at the same time."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from strato.admission import AdmissionRequest
from strato.api.kinds import Kind
from strato.errors import ApiError, BadRequest, Forbidden, InternalError
from strato.server.bodies import read_body
from strato.server.dynamicadmission import conditions, reviews
from strato.server.dynamicadmission.equivalence import as_matched, converted
from strato.server.dynamicadmission.matching import Json
from strato.server.dynamicadmission.reinvocation import Reinvocation
from strato.server.dynamicadmission.reviews import BadReview, WebhookVerdict
from strato.server.dynamicadmission.sources import Concerned, Hook, World
from strato.server.flowcontrol.dispatch import Steps
from strato.server.flowcontrol.waiting import Costly, Elsewhere
from strato.server.jsonbodies import UNCOUNTED_BYTES, json_steps
from strato.server.patch import apply_json_patch
from strato.server.preparation import new_uid
from strato.server.webhookclient import CallFailed, WebhookClient

_log = logging.getLogger(__name__)
_encode = msgspec.json.Encoder().encode
_DEFAULT_SECONDS, _LEAST_SECONDS, _MOST_SECONDS = 10, 1, 30
_MUTATION, _VALIDATION = "mutation.webhook.admission.k8s.io", "validating.webhook.admission.k8s.io"


class WebhookCall(NamedTuple):
    """A webhook to call, and the question for it."""

    hook: Hook
    matched: Kind
    """The kind in whose version it gets the object."""
    version: str
    uid: str
    body: bytes
    seconds: float


@dataclass(slots=True)
class Webhooks:
    """Calls the webhooks for a write."""

    world: World
    client: WebhookClient
    rng: random.Random

    def mutate(
        self,
        request: AdmissionRequest,
        concerned: Concerned,
        namespace: Json | None,
        options: Json | None,
        check: Callable[[Json], Json],
        reinvocation: Reinvocation,
    ) -> Steps[bool]:
        """Let webhooks mutate the object of a write, each the result of the one before; return whether any changed it.

        Args:
            request: The write; its object is replaced.
            concerned: The webhooks, in order.
            namespace: The object's stored namespace.
            options: The operation's options.
            check: Returns a changed object with its defaults, or raises an `ApiError`.
            reinvocation: Which of them are called in this round.

        Raises:
            ApiError: A webhook refused the write, or could not be called.
        """
        has_changed = False
        for index, hook in enumerate(concerned.mutating):
            if reinvocation.skips(hook):
                continue
            call = yield from self._call_for(hook, request, concerned.others, namespace, options)
            if call is None:
                continue
            label = f"round_{int(reinvocation.is_second)}_index_{index}"
            changed = False
            verdict = yield from self._verdict(call, request, f"failed-open.{_MUTATION}/{label}", mutates=True)
            if verdict is not None:
                _note(request, hook, verdict)
                changed = yield from _patched(call, verdict, request, self._checked(request, call.matched, check))
            if changed:
                has_changed = True
                reinvocation.changed()
            note = {"configuration": hook.configuration, "webhook": hook.name, "mutated": changed}
            request.audit_annotations[f"{_MUTATION}/{label}"] = _encode(note).decode()
            if hook.written.get("reinvocationPolicy") == "IfNeeded":
                reinvocation.asked(hook)
        reinvocation.end(request.object)
        return has_changed

    def validate(
        self, request: AdmissionRequest, concerned: Concerned, namespace: Json | None, options: Json | None
    ) -> Steps[None]:
        """Call all validating webhooks at the same time.

        Raises:
            ApiError: One refused the write or could not be called; of several the first in order.
        """
        calls: list[WebhookCall] = []
        for hook in concerned.validating:
            call = yield from self._call_for(hook, request, concerned.others, namespace, options)
            if call is not None:
                calls.append(call)
        if not calls:
            return
        answers: list[bytes | CallFailed | ApiError] = yield Elsewhere(lambda: self._all(calls))
        refused: ApiError | None = None
        for index, (call, answer) in enumerate(zip(calls, answers, strict=True)):
            try:
                key = f"failed-open.{_VALIDATION}/round_0_index_{index}"
                verdict = yield from self._read(call, answer, request, key, mutates=False)
                if verdict is not None:
                    _note(request, call.hook, verdict)
            except ApiError as error:
                refused = refused or error
        if refused is not None:
            raise refused

    def _checked(
        self, request: AdmissionRequest, matched: Kind, check: Callable[[Json], Json]
    ) -> Callable[[Callable[[Json], Any]], Json]:
        """Return the function that applies a webhook's change to the write's object, in the webhook's version."""
        registry, kind = self.world.registry, request.kind

        def changed(change: Callable[[Json], Any]) -> Json:
            # a copy: the change works in place, and the object may share parts with the stored one
            shown = msgspec.json.decode(_encode(converted(registry, request.object, kind, matched)))
            return check(converted(registry, change(shown), matched, kind))

        return changed

    def _call_for(
        self,
        hook: Hook,
        request: AdmissionRequest,
        others: Sequence[Kind],
        namespace: Json | None,
        options: Json | None,
    ) -> Steps[WebhookCall | None]:
        """Return the call of a webhook for a write; None if its selectors or conditions do not match.

        Raises:
            Forbidden: Its match conditions cannot be evaluated.
            BadRequest: The write is a dry run and the webhook has side effects.
        """
        scope, written = hook.scope, hook.written
        matched = scope.covered(request.kind, str(request.operation), request.subresource, others)
        if matched is None or not scope.selects(request, namespace):
            return None
        if written.get("matchConditions"):
            env = conditions.environment(request, matched, self.world, None)
            holds = yield from _conditions_hold(hook, request, env)
            if not holds:
                return None
        if request.dry_run and written.get("sideEffects") not in ("None", "NoneOnDryRun"):
            raise BadRequest(f'admission webhook "{hook.name}" does not support dry run')
        uid = new_uid(self.rng)
        try:
            version = reviews.version_for(written.get("admissionReviewVersions"))
        except BadReview as error:
            if hook.fails_open:
                return None
            raise _failed(hook, f"could not create admission objects: {error}") from error
        shown = as_matched(self.world.registry, request, matched)
        body = _encode(reviews.question(version, uid, request, matched, shown, options))
        seconds = min(max(written.get("timeoutSeconds") or _DEFAULT_SECONDS, _LEAST_SECONDS), _MOST_SECONDS)
        return WebhookCall(hook, matched, version, uid, body, seconds)

    async def _all(self, calls: Sequence[WebhookCall]) -> list[bytes | CallFailed | ApiError]:
        return list(await asyncio.gather(*map(self._asked, calls)))

    async def _asked(self, call: WebhookCall) -> bytes | CallFailed | ApiError:
        try:
            return await self.client.post(call.hook.written.get("clientConfig") or {}, call.body, call.seconds)
        except (CallFailed, ApiError) as error:
            return error

    def _verdict(
        self, call: WebhookCall, request: AdmissionRequest, open_key: str, *, mutates: bool
    ) -> Steps[WebhookVerdict | None]:
        answer: bytes | CallFailed | ApiError = yield Elsewhere(lambda: self._asked(call))
        return (yield from self._read(call, answer, request, open_key, mutates=mutates))

    def _read(
        self,
        call: WebhookCall,
        answer: bytes | CallFailed | ApiError,
        request: AdmissionRequest,
        open_key: str,
        *,
        mutates: bool,
    ) -> Steps[WebhookVerdict | None]:
        """Return a webhook's decision; None if the call failed and its failure policy is Ignore.

        Raises:
            ApiError: The call failed, or the webhook refused the write.
        """
        hook = call.hook
        try:
            if isinstance(answer, CallFailed):
                raise BadReview(f"failed to call webhook: {answer}")
            if isinstance(answer, ApiError):
                raise answer
            try:
                value = yield from _decoded(answer)
                verdict = reviews.verdict(call.version, call.uid, value, mutates=mutates)
            except BadReview as error:
                raise BadReview(f"received invalid webhook response: {error}") from error
        except BadReview as error:
            if not hook.fails_open:
                raise _failed(hook, str(error)) from error
            _log.warning("a webhook is ignored: webhook=%s error=%s", hook.name, error)
            request.audit_annotations[open_key] = hook.name
            return None
        if not verdict.allowed:
            _note(request, hook, verdict)
            raise reviews.refusal(hook.name, verdict.result)
        return verdict


def _conditions_hold(hook: Hook, request: AdmissionRequest, env: Any) -> Steps[bool]:
    try:
        return (
            yield from conditions.bounded(
                lambda: conditions.matches(hook.written["matchConditions"], env, fails_open=hook.fails_open)
            )
        )
    except conditions.Failed as error:
        raise Forbidden(f'{request.kind.resource} "{request.name}" is forbidden: {error}') from error


def _decoded(answer: bytes) -> Steps[Any]:
    try:
        if len(answer) > UNCOUNTED_BYTES:
            return (yield from json_steps(answer))
        return read_body(answer, "application/json")
    except ApiError as error:
        raise BadReview(str(error)) from error


def _patched(
    call: WebhookCall,
    verdict: WebhookVerdict,
    request: AdmissionRequest,
    changed: Callable[[Callable[[Json], Any]], Json],
) -> Steps[bool]:
    """Apply the patch of a webhook; return whether it changed anything."""
    hook = call.hook
    if not verdict.patch:
        return False
    try:
        operations = yield from _decoded(verdict.patch)
    except BadReview as error:
        if hook.fails_open:
            return False
        raise _failed(hook, f"received undecodable patch in webhook response: {error}") from error
    before = request.object
    if not operations:
        return False
    if before is None:
        raise InternalError(
            f'Internal error occurred: admission webhook "{hook.name}" attempted to modify the object, which is not '
            "supported for this operation"
        )

    def apply() -> Json | None:
        after = changed(lambda obj: apply_json_patch(obj, operations))
        return None if after == before else after

    try:
        after: Json | None = (yield Costly(apply)) if len(call.body) + len(verdict.patch) > UNCOUNTED_BYTES else apply()
    except ApiError as error:
        raise InternalError(
            f'Internal error occurred: the patch of admission webhook "{hook.name}": {error}'
        ) from error
    if after is None:
        return False
    request.object = after
    return True


def _note(request: AdmissionRequest, hook: Hook, verdict: WebhookVerdict) -> None:
    request.warnings.extend(verdict.warnings)
    for key, value in verdict.annotations.items():
        request.audit_annotations.setdefault(f"{hook.name}/{key}", value)


def _failed(hook: Hook, why: str) -> InternalError:
    return InternalError(f'Internal error occurred: failed calling webhook "{hook.name}": {why}')
