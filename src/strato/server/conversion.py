"""Convert custom objects between versions by the webhook of their definition.

An action that meets an object to convert raises `Unconverted`, before it has written anything. `Conversions` calls the
webhook, stores the result in the `Versions` of the definition, and runs the action again. The webhook is called once
for each state of an object, as `Versions` caches the results.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import msgspec

from strato.api.wire import Request, Response
from strato.decoding import UNDECODABLE
from strato.errors import InternalError, TooLarge
from strato.server.path import ResourcePath
from strato.server.preparation import Json, encode, new_uid
from strato.server.registry import Served
from strato.server.rest.state import State
from strato.server.versions import AT_ONCE, Unconverted
from strato.server.webhookclient import CallFailed

Action = Callable[[Request, ResourcePath, Served], Response | Awaitable[Response]]

_CALL_SECONDS = 30.0
"""Timeout of a webhook call, as in kube-apiserver."""
_CALL_BYTES = 2 << 20
"""Most bytes of objects in one call; more are sent in several calls."""
_ATTEMPTS = 200
"""How often an action is run again, each time with more objects converted."""
_REVIEWS = ("v1", "v1beta1")


class Conversions:
    """Calls conversion webhooks for the actions that need them."""

    def __init__(self, state: State) -> None:
        self._state = state
        state.convert = self.convert

    def around(self, action: Action) -> Action:
        """Return an action that converts the objects for which ``action`` raises `Unconverted`, and runs it again."""

        async def answer(request: Request, target: ResourcePath, served: Served) -> Response:
            for _ in range(_ATTEMPTS):
                try:
                    found = action(request, target, served)
                    return found if isinstance(found, Response) else await found
                except Unconverted as missing:
                    await self.convert(missing)
            raise TooLarge(f"the answer holds over {_ATTEMPTS * AT_ONCE} objects to be converted; ask with a limit")

        return answer

    async def convert(self, missing: Unconverted) -> None:
        """Have a webhook convert objects, and keep the results.

        Raises:
            InternalError: The webhook cannot be reached, or its answer is unusable.
        """
        kind = missing.objects[0].get("kind")
        try:
            for objects in _portions(missing.objects):
                made = await self._asked(missing.versions.webhook or {}, missing.version, objects)
                for original, converted in zip(objects, made, strict=True):
                    missing.versions.keep(original, missing.version, converted)
        except (CallFailed, _Unusable) as error:
            version = missing.objects[0].get("apiVersion")
            raise InternalError(f"conversion webhook for {version}, Kind={kind} failed: {error}") from error

    async def _asked(self, webhook: Mapping[str, Any], version: str, objects: Sequence[Json]) -> list[Json]:
        review = next((one for one in webhook.get("conversionReviewVersions") or () if one in _REVIEWS), "")
        if not review:
            raise _Unusable("no supported conversion review versions")
        uid = new_uid(self._state.rng)
        question = {
            "kind": "ConversionReview",
            "apiVersion": f"apiextensions.k8s.io/{review}",
            "request": {"uid": uid, "desiredAPIVersion": version, "objects": objects},
        }
        body = await asyncio.to_thread(encode, question)
        answer = await self._state.webhooks.post(webhook.get("clientConfig") or {}, body, _CALL_SECONDS)
        return await asyncio.to_thread(_read, answer, question, version, objects)


class _Unusable(Exception):
    """A webhook's answer is not a valid ConversionReview for the question."""


def _portions(objects: Sequence[Json]) -> Iterator[Sequence[Json]]:
    """Split objects into portions, each for one call."""
    portion: list[Json] = []
    size = 0
    for obj in objects:
        weight = len(encode(obj))
        if portion and (size + weight > _CALL_BYTES or len(portion) == AT_ONCE):
            yield portion
            portion, size = [], 0
        portion.append(obj)
        size += weight
    yield portion


def _read(answer: bytes, question: Json, version: str, objects: Sequence[Json]) -> list[Json]:
    """Return the converted objects, checked: of their metadata only labels and annotations may differ."""
    try:
        review = msgspec.json.decode(answer)
    except UNDECODABLE as error:
        raise _Unusable(f"the answer is not JSON: {error}") from error
    found = (review.get("apiVersion"), review.get("kind")) if isinstance(review, dict) else (None, None)
    if found != (question["apiVersion"], "ConversionReview"):
        raise _Unusable(f"expected webhook response of {question['apiVersion']}, Kind=ConversionReview, got {found}")
    response = review.get("response")
    if not isinstance(response, dict):
        raise _Unusable("no response provided")
    uid = question["request"]["uid"]
    if response.get("uid") != uid and question["apiVersion"].endswith("/v1"):
        raise _Unusable(f'expected response.uid="{uid}", got {response.get("uid")!r}')
    result = response.get("result")
    result = result if isinstance(result, dict) else {}
    if result.get("status") != "Success":
        text = f"response.result.status was '{result.get('status', '')}', not 'Success'"
        raise _Unusable(str(result.get("message") or text)[:_MESSAGE_CHARACTERS])
    converted = response.get("convertedObjects")
    converted = converted if isinstance(converted, list) else []
    if len(converted) != len(objects):
        raise _Unusable(f"returned {len(converted)} objects, expected {len(objects)}")
    for index, (original, made) in enumerate(zip(objects, converted, strict=True)):
        if problem := _problem(original, made, version):
            raise _Unusable(f"returned invalid converted object at index {index}: {problem}")
    return converted


_MESSAGE_CHARACTERS = 4096


def _problem(original: Json, made: Any, version: str) -> str:
    """Return what is wrong with a converted object; empty if nothing is."""
    if not isinstance(made, dict) or not isinstance(made.get("metadata"), dict):
        return "missing metadata in converted object"
    if made.get("apiVersion") != version:
        return f"invalid groupVersion (expected {version}, received {made.get('apiVersion')})"
    if made.get("kind") != original["kind"]:
        return f"invalid kind (expected {original['kind']}, received {made.get('kind')})"
    before, after = original["metadata"], made["metadata"]
    for member, name in (("name", "name"), ("namespace", "namespace"), ("uid", "UID")):
        if after.get(member, "") != before.get(member, ""):
            return f"must have the same {name}: {before.get(member, '')} != {after.get(member, '')}"
    for member in ("labels", "annotations"):
        texts = after.get(member) or {}
        if not isinstance(texts, dict) or not all(isinstance(text, str) for text in islice(texts.values(), 10_000)):
            return f"invalid metadata.{member} in converted object"
    return ""
