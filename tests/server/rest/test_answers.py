"""The embedded server answers what a real kube-apiserver has answered, request by request."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from typing import Any

import pytest

from strato.clock import VirtualClock, run_virtual
from strato.server.auth.accounts import AccountTokens
from strato.server.auth.identity import Authenticator
from strato.server.auth.tokens import Tokens
from strato.server.embedded import in_memory_server
from tests.server.rest.cases import CASES
from tests.server.rest.record import ask_all, kube_apiserver, places, recorded
from tests.server.rest.servers import Embedded
from tests.server.rest.steps import Case, Step, play

ANSWERS = recorded()


def differences(ours: Any, theirs: Any, path: str = "") -> Iterator[str]:
    """Yield where two answers part, one line each."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for name in [*theirs, *(name for name in ours if name not in theirs)]:
            if name not in ours:
                yield f"{path}.{name}: missing, should be {theirs[name]!r}"
            elif name not in theirs:
                yield f"{path}.{name}: {ours[name]!r}, should not be there"
            else:
                yield from differences(ours[name], theirs[name], f"{path}.{name}")
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for index, (mine, other) in enumerate(zip(ours, theirs, strict=True)):
            yield from differences(mine, other, f"{path}[{index}]")
    elif ours != theirs:
        yield f"{path}: {ours!r}, should be {theirs!r}"


def compared(step: Step, answer: Any) -> Any:
    """Return what of an answer is compared."""
    if step.only_warnings:
        return {"code": answer["code"], "warning": answer.get("warning")}
    if not step.own_words:
        return answer
    body = answer.get("body", {})
    details = body.get("details", {})
    causes = {(cause.get("reason"), cause.get("field")) for cause in details.get("causes", ())}
    return {"code": answer["code"], "reason": body.get("reason"), "kind": details.get("kind"), "causes": causes}


def described(step: Step) -> str:
    return (
        f"{step.method} {step.path}{'?' if step.query else ''}{step.query} {step.body if step.body is not None else ''}"
    )


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_server_answers_like_a_real_one(case: Case) -> None:
    async def ask() -> list[Any]:
        tokens = Authenticator(Tokens(), accounts=AccountTokens(None, clock))
        return await play(Embedded(in_memory_server(clock, random.Random(7), tokens=tokens)), case, *places(case))

    clock = VirtualClock()
    found = []
    for number, (step, ours, theirs) in enumerate(
        zip(case.steps, run_virtual(clock, ask()), ANSWERS[case.name], strict=True)
    ):
        assert ours["code"] in {*range(500), theirs["code"]}, f"step {number}: {described(step)}: {ours}"
        if step.differs:
            continue
        lines = [f"    {line}" for line in differences(compared(step, ours), compared(step, theirs))]
        if lines:
            found += [f"step {number}: {described(step)}", *lines]
    assert not found, "\n".join(["", *found])


@pytest.mark.kube
@pytest.mark.timeout(600)
def test_record_is_what_a_real_server_answers() -> None:
    """When this fails: ``python -m tests.server.rest.record``."""
    with kube_apiserver() as server:
        answers = asyncio.run(ask_all(server))
    found = [
        line
        for case in CASES
        for step, new, old in zip(case.steps, answers[case.name], ANSWERS[case.name], strict=True)
        for line in differences(compared(step, new), compared(step, old), case.name)
    ]
    assert found == []
