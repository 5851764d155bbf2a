"""Send what schemathesis makes of our own OpenAPI documents to a real API server: bodies that fit, and that nearly do.

What counts as a finding is said in `tests.attack.fuzz`.
"""

from __future__ import annotations

import itertools
import json
import random
import sys
import time
from collections.abc import Iterator
from functools import partial
from typing import Any
from urllib.parse import urlencode

import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import Case, GenerationMode

from tests.attack.fuzz import Findings, Fuzzer, Run, main
from tests.attack.mutations import Sent

_FEWEST_EXAMPLES, _MOST_EXAMPLES = 8, 40
"""Of one operation at a time: more of them are larger ones."""
_HEALTH = list(HealthCheck)
_NAMESPACES, _NAMES = ("default", "default", ""), ("a", "a", "fuzz-1", "")
"""What stands for a path's parameters; empty means what was made for it."""


def operations(fuzzer: Fuzzer) -> Iterator[Any]:
    """Yield every operation of every document."""
    for path in sorted(fuzzer.get("/openapi/v3")["paths"]):
        document = fuzzer.get(f"/openapi/v3/{path}")
        for found in schemathesis.openapi.from_dict(document).get_all_operations():
            yield found.ok()


def run(fuzzer: Fuzzer, count: int, start: float = 0.0) -> Findings:
    """Send about ``count`` requests: one to each operation, then some to each in turn, that nearly fit or fit.

    Args:
        fuzzer: Sends.
        count: Requests.
        start: Which operation is the first, from 0 to 1: of few requests each process sends to a part of them only.
    """
    found = list(operations(fuzzer))
    random.Random(1).shuffle(found)
    findings = fuzzer.findings
    findings.known_operations = {operation.label for operation in found}
    share = min(_MOST_EXAMPLES, max(_FEWEST_EXAMPLES, count // len(found) // len(GenerationMode)))
    takes_anything: set[str] = set()
    first, shown = round(start * len(found)), time.monotonic()
    for number in itertools.count():
        if findings.sent >= count or not fuzzer.is_alive():
            break
        turn, at = divmod(number, len(found))
        operation, examples = found[(first + at) % len(found)], share if turn else 1
        label, sent = operation.label, findings.sent
        is_negative = (turn + at) % 2 == 1 and label not in takes_anything
        try:
            _send(fuzzer, operation, GenerationMode.NEGATIVE if is_negative else GenerationMode.POSITIVE, examples)
        except Unsatisfiable:  # nothing is wrong for an operation that takes anything
            takes_anything.add(label)
            _send(fuzzer, operation, GenerationMode.POSITIVE, examples)
        if findings.sent > sent:
            findings.operations.add(label)
        if time.monotonic() - shown > 20:
            shown = time.monotonic()
            print(f"{findings.sent} of {count} requests, {findings.reached()}", flush=True)
    return findings


def runs(many: int) -> list[Run]:
    """Return what so many processes do: each begins elsewhere."""
    return [partial(run, start=number / many) for number in range(many)]


def _send(fuzzer: Fuzzer, operation: Any, mode: GenerationMode, share: int) -> None:
    @seed(fuzzer.rng.randrange(1 << 30))
    @settings(max_examples=share, deadline=None, database=None, phases=[Phase.generate], suppress_health_check=_HEALTH)
    @given(case=operation.as_strategy(generation_mode=mode))
    def one(case: Case) -> None:
        fuzzer.send(_sent(fuzzer, case))

    one()


def _sent(fuzzer: Fuzzer, case: Case) -> Sent:
    """Return a case as a request, mostly about objects that are there."""
    namespace, name = fuzzer.rng.choice(_NAMESPACES), fuzzer.rng.choice(_NAMES)
    case.path_parameters = {
        **(case.path_parameters or {}),
        **({"namespace": namespace} if namespace else {}),
        **({"name": name} if name else {}),
    }
    query = {key: value for key, value in dict(case.query or {}).items() if key != "watch"}
    target = case.formatted_path + (f"?{urlencode(query, doseq=True)}" if query else "")
    headers, body = [], b""
    if case.media_type:
        headers.append(("Content-Type", case.media_type))
        body = case.body if isinstance(case.body, bytes) else json.dumps(case.body, default=str).encode()
    return Sent(case.method.upper(), target, headers, body)


if __name__ == "__main__":
    sys.exit(main(runs, 20_000))
