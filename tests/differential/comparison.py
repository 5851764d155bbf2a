"""Ask two servers the same and list where their answers part, but for what may differ."""

from __future__ import annotations

import asyncio
import json
import random
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from strato.clock import VirtualClock, run_virtual
from strato.server.auth.accounts import AccountTokens
from strato.server.auth.identity import Authenticator
from strato.server.auth.tokens import Tokens
from strato.server.embedded import in_memory_server
from tests.server.rest.record import places
from tests.server.rest.servers import Embedded, Remote
from tests.server.rest.steps import Case, Step, play
from tests.server.rest.test_answers import differences

_AT_ONCE = 8


class Difference(NamedTuple):
    """One answer that is not the real server's."""

    case: str
    step: Step
    lines: list[str]

    def __str__(self) -> str:
        step = self.step
        body = "" if step.body is None else json.dumps(step.body)
        head = f"{self.case}: {step.method} {step.path}{'?' if step.query else ''}{step.query} {step.media} {body}"
        return "\n    ".join([head, *self.lines])


def embedded_answers(cases: Sequence[Case]) -> list[list[Any]]:
    """Return what the server in this process answers."""
    clock = VirtualClock()

    async def ask() -> list[list[Any]]:
        tokens = Authenticator(Tokens(), accounts=AccountTokens(None, clock))
        server = Embedded(in_memory_server(clock, random.Random(7), tokens=tokens))
        return [await play(server, case, *places(case)) for case in cases]

    return run_virtual(clock, ask())


async def real_answers(server: Remote, cases: Sequence[Case]) -> list[list[Any]]:
    """Return what a real server answers."""
    gate = asyncio.Semaphore(_AT_ONCE)

    async def one(case: Case) -> list[Any]:
        async with gate:
            return await play(server, case, *places(case))

    return list(await asyncio.gather(*map(one, cases)))


def compared(answer: Any) -> Any:
    """Return what of an answer is compared: of a refusal its code, reason and causes, but for the words."""
    if answer["code"] < 400:
        return answer
    body = answer.get("body", {})
    details = body.get("details") or {}
    causes = sorted({(cause.get("reason", ""), _field(cause)) for cause in details.get("causes", ())})
    return {"code": answer["code"], "reason": body.get("reason"), "kind": details.get("kind"), "causes": causes}


def _field(cause: Any) -> str:
    return re.sub(r"\[[^\]]*\]", "[]", cause.get("field", ""))


def parted(cases: Sequence[Case], ours: list[list[Any]], theirs: list[list[Any]]) -> Iterator[Difference]:
    """Yield the first difference of each case: what follows from it is no other one."""
    for case, our, their in zip(cases, ours, theirs, strict=True):
        for step, mine, other in zip(case.steps, our, their, strict=True):
            lines = list(differences(compared(mine), compared(other)))
            if lines:
                if mine["code"] >= 400 or other["code"] >= 400:
                    lines += [f"ours: {mine.get('body')}", f"theirs: {other.get('body')}"]
                yield Difference(case.name, step, lines)
                if mine["code"] != other["code"] and (mine["code"] < 300 or other["code"] < 300):
                    break
