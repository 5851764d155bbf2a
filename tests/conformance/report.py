"""What a run of the suite came to: the table by group, and `docs/conformance.md`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from tests.conformance.images import RECIPES
from tests.conformance.suite import UP, Result, Spec

BARS = {
    "api-machinery": 88,
    "apps": 56,
    "architecture": 0,
    "auth": 9,
    "cli": 17,
    "instrumentation": 4,
    "network": 25,
    "node": 85,
    "scheduling": 11,
    "storage": 80,
}
"""How many specs of each group are to pass."""
BAR = 370
"""And of all."""
_REASON_LENGTH = 240
_VARYING = (
    (re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"), "UID"),
    (re.compile(r"\b\d{1,3}(\.\d{1,3}){3}(:\d+)?\b"), "ADDRESS"),
    (re.compile(r"0x[0-9a-f]+|0xc[0-9a-f]{9}"), "POINTER"),
    (re.compile(r"-\d{3,5}\b"), "-N"),
    (re.compile(r"(/[\w.+-]+){3,}"), "PATH"),
)
"""What differs from run to run in the suite's words."""


def table(specs: Sequence[Spec], results: dict[str, Result]) -> str:
    """Return the table by group, as Markdown, of the specs that ran."""
    groups = sorted({spec.sig for spec in specs})
    rows = [_row(sig, [spec for spec in specs if spec.sig == sig], results, BARS.get(sig, 0)) for sig in groups]
    head = ["| group | passed | ran | specs | bar |", "|---|---:|---:|---:|---:|"]
    return "\n".join([*head, *rows, _row("all", specs, results, BAR)])


def _row(name: str, specs: Sequence[Spec], results: dict[str, Result], bar: int) -> str:
    ran = [results[spec.name] for spec in specs if spec.name in results]
    return f"| {name} | {sum(one.passed for one in ran)} | {len(ran)} | {len(specs)} | {bar} |"


def page(version: str, specs: Sequence[Spec], results: dict[str, Result]) -> str:
    """Return `docs/conformance.md`."""
    failed = [results[spec.name] for spec in specs if spec.name in results and not results[spec.name].passed]
    parts = [
        "# Conformance",
        f"Kubernetes' own conformance suite, version {version}, against `strato up {' '.join(UP)}` on one "
        "machine, as root. `make conformance` builds the suite from its published sources, runs it, and writes this "
        "page; what ran already is kept, and `make conformance CONFORMANCE=--fresh` begins anew. Nothing is done to "
        "the cluster beforehand but that the images below are imported into its store.",
        table(specs, results),
        "## What fails, and why",
        "The reasons are the suite's own words, with what differs from run to run left out.",
        "\n".join(
            ["| spec | reason |", "|---|---|", *(f"| {_cell(one.name)} | {_reason(one.reason)} |" for one in failed)]
        )
        if failed
        else "Nothing.",
        "## Images",
        "No registry is asked: the images that the specs name are made of programs built from Kubernetes' sources and "
        "of Debian's packages.",
        "\n".join(["| image | what it is here |", "|---|---|", *_images()]),
    ]
    return "\n\n".join(parts) + "\n"


def _images() -> Iterable[str]:
    for recipe in RECIPES:
        yield f"| {', '.join(f'`{name}`' for name in recipe.names)} | {recipe.stands_for} |"


def _reason(text: str) -> str:
    """Return the suite's reason in one cell of a table."""
    words = " ".join(text.split())
    for pattern, name in _VARYING:
        words = pattern.sub(name, words)
    words = words if len(words) <= _REASON_LENGTH else words[:_REASON_LENGTH].rstrip() + " …"
    return _cell(words)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("`", "'")
