"""Requests as data: one table asked of the embedded server and of a real Kubernetes API server.

Placeholders in paths, queries and bodies: ``{ns}`` the case's own namespace, ``{x}`` a suffix of the case's own for
names that are cluster-wide, ``{rv:N}``, ``{uid:N}``, ``{continue:N}`` what the answer of step N carried, ``{name:N}``.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

JSON, YAML = "application/json", "application/yaml"
MERGE, STRATEGIC = "application/merge-patch+json", "application/strategic-merge-patch+json"
PATCH = "application/json-patch+json"


@dataclass(frozen=True)
class Step:
    """One request."""

    method: str
    path: str
    body: Any = None
    """Encoded as JSON; text is sent as it is."""
    media: str = JSON
    query: str = ""
    accept: str = JSON
    watch: bool = False
    """The answer is a stream of frames, read until it ends."""
    quiet: bool = False
    """Only the status code is compared: the step prepares something."""
    own_words: bool = False
    """The words are those of Go's libraries: only code, reason and kind are compared."""
    only_warnings: bool = False
    """Only code and warnings are compared: each server chooses addresses of its own."""
    until: int = 0
    """Asked again until the answer has this code: a real server serves what a definition defines a moment later."""
    differs: str = ""
    """Why the embedded server deliberately answers otherwise; the step is asked, but not compared."""


@dataclass(frozen=True)
class Case:
    """Steps that build on each other, in a namespace of their own."""

    name: str
    steps: Sequence[Step]


@dataclass
class Answer:
    """What came back."""

    code: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)


class Server(Protocol):
    """Something that answers requests."""

    async def ask(
        self, method: str, path: str, query: str, headers: Mapping[str, str], body: bytes, watch: bool
    ) -> Answer:
        """Answer one request; a watch is read to its end."""
        ...


def get(path: str, query: str = "", **more: Any) -> Step:
    return Step("GET", path, query=query, **more)


def post(path: str, body: Any, query: str = "", **more: Any) -> Step:
    return Step("POST", path, body, query=query, **more)


def put(path: str, body: Any, query: str = "", **more: Any) -> Step:
    return Step("PUT", path, body, query=query, **more)


def patch(path: str, body: Any, media: str = MERGE, query: str = "", **more: Any) -> Step:
    return Step("PATCH", path, body, media, query=query, **more)


def delete(path: str, body: Any = None, query: str = "", **more: Any) -> Step:
    return Step("DELETE", path, body, query=query, **more)


def watch(path: str, query: str, **more: Any) -> Step:
    """Watch for three seconds, for which a real server on a busy machine has sent what there is to send."""
    return Step("GET", path, query=f"watch=true&timeoutSeconds=3&{query}", watch=True, **more)


def own_words(step: Step) -> Step:
    return replace(step, own_words=True)


def differs(reason: str, step: Step) -> Step:
    return replace(step, differs=reason)


_AGE = re.compile(r"^(\d+[smh])+$")
_UNENFORCED = re.compile(r": stored, but |and \d+ more of these")
"""Warnings of what the embedded cluster does not do, which a real one does (tests/admission/test_unenforced.py)."""
_SLOT = re.compile(r"\{(ns|x|(?:rv|uid|continue|name):\d+)\}")


class Run:
    """One run of a case on one server."""

    def __init__(self, server: Server, namespace: str, suffix: str) -> None:
        self._server = server
        self._slots = {"ns": namespace, "x": suffix}
        self._count = 0

    async def ask(self, step: Step) -> Any:
        """Ask and return the answer in a form that does not depend on the server, the time or chance."""
        body = b""
        if step.body is not None:
            text = step.body if isinstance(step.body, str) else json.dumps(step.body)
            body = self._fill(text).encode()
        headers = {"accept": step.accept}
        if body:
            headers["content-type"] = step.media
        path, query = self._fill(step.path), self._fill(step.query)
        answer = await self._server.ask(step.method, path, query, headers, body, step.watch)
        while step.until and answer.code != step.until:
            await asyncio.sleep(0.1)  # the test's timeout bounds it
            answer = await self._server.ask(step.method, path, query, headers, body, step.watch)
        read = self._read(answer, step)
        self._count += 1
        return read

    def _read(self, answer: Answer, step: Step) -> Any:
        if step.watch and answer.code == 200 and step.quiet:
            return {"code": 200}
        if step.watch and answer.code == 200:
            frames = [json.loads(line) for line in answer.body.splitlines()]
            return {"code": 200, "frames": [self._plain(frame) for frame in frames if not _at_will(frame)]}
        try:
            body = json.loads(answer.body)
        except ValueError:
            return {"code": answer.code, "text": self._text(answer.body.decode(errors="replace"))}
        self._remember(body)
        if step.quiet:
            return {"code": answer.code}
        read = {"code": answer.code, "body": self._plain(body)}
        lines = re.split(r", (?=299 - )|\n", str(answer.headers.get("warning") or ""))
        warning = ", ".join(line for line in lines if not _UNENFORCED.search(line))
        if warning:
            read["warning"] = self._text(warning)
        return read

    def _remember(self, body: Any) -> None:
        metadata = body.get("metadata") if isinstance(body, dict) else None
        for slot, member in (("rv", "resourceVersion"), ("uid", "uid"), ("continue", "continue"), ("name", "name")):
            if isinstance(metadata, dict) and metadata.get(member):
                self._slots[f"{slot}:{self._count}"] = metadata[member]
        details = body.get("details") if isinstance(body, dict) else None
        if isinstance(details, dict) and details.get("uid"):
            self._slots[f"uid:{self._count}"] = details["uid"]

    def _fill(self, text: str) -> str:
        return _SLOT.sub(lambda found: str(self._slots[found[1]]), text)

    def _text(self, text: str) -> str:
        text = text.replace(self._slots["ns"], "{ns}").replace(self._slots["x"], "{x}")
        for slot, value in self._slots.items():
            if slot.startswith("uid"):
                text = text.replace(value, f"{{{slot}}}")
        text = re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+Z", "{time}", text)
        text = re.sub(r"(?<=resource version: )\d+( \(\d+\)|, current: \d+)?", "{rv}", text)
        text = re.sub(r"(?<=in record \()\d+\b(?!-)", "{rv}", text)
        return re.sub(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", "{uid}", text)

    def _plain(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {name: self._member(name, member) for name, member in value.items() if not _skipped(name, value)}
        if isinstance(value, list):
            return [self._plain(item) for item in value]
        return self._text(value) if isinstance(value, str) else value

    def _member(self, name: str, value: Any) -> Any:
        if name in ("resourceVersion", "uid", "continue") and value:
            return "{" + name + "}"
        if name == "rows" and value is None:
            return []
        if name == "cells":
            return [_AGE.sub("{age}", self._text(cell)) if isinstance(cell, str) else cell for cell in value]
        if name == "token" and str(value).startswith("ey"):
            return "{token}"
        if name == "causes":  # a real server says some twice
            return [cause for at, cause in enumerate(self._plain(value)) if cause not in self._plain(value[:at])]
        return self._plain(value)


def _at_will(frame: Any) -> bool:
    """Tell a bookmark that a server sends when it likes, other than the one that ends the initial events."""
    return frame.get("type") == "BOOKMARK" and "annotations" not in frame["object"]["metadata"]


def _skipped(name: str, parent: dict[str, Any]) -> bool:
    """Tell what is not compared: who wrote which field, generations outside metadata, descriptions of columns."""
    if name == "generation":
        return not parent.get("uid")
    return name == "managedFields" or (name == "description" and "priority" in parent)


async def play(server: Server, case: Case, namespace: str, suffix: str) -> list[Any]:
    """Return the answers of a case."""
    run = Run(server, namespace, suffix)
    account = {"metadata": {"name": "default"}, "automountServiceAccountToken": False}
    for path, obj in (
        ("/api/v1/namespaces", {"metadata": {"name": namespace}}),
        (f"/api/v1/namespaces/{namespace}/serviceaccounts", account),  # without it there are no pods
    ):
        made = await server.ask("POST", path, "", {"content-type": JSON}, json.dumps(obj).encode(), False)
        assert made.code == 201, made.body
    return [await run.ask(step) for step in case.steps]
