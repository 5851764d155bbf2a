"""Write ``docs/plugin-types.md`` from the classes that plugins are handed: python tools/plugin_reference.py."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path

from strato.scheduler.framework.plugin import Plugin
from strato.scheduler.framework.reference import CLASSES, ClassMember, members_of
from strato.scheduler.model.tasks import STATUS_NAMES

TARGET = Path(__file__).parents[1] / "docs" / "plugin-types.md"

_HEAD = """# What plugins are handed

Written by `python tools/plugin_reference.py` from the classes of `strato.scheduler.framework` and its model. Plugins
read all of it and change none of it; what has parentheses is a method. How to write one: [plugins.md](plugins.md).

Amounts are whole numbers, one column per resource: memory in bytes, pods and storage (ephemeral, huge pages,
attachable volumes) as they are, everything else, cpu too, in thousandths. `Vector` is an array of int64, `Rows` one of
row numbers, `Mask` one of booleans. Counts of tasks are indexed by status: STATUSES.
"""


def reference() -> str:
    """Return the page."""
    statuses = ", ".join(f"{number} {name}" for number, name in enumerate(STATUS_NAMES))
    return "\n".join(
        [
            _HEAD.replace("STATUSES", statuses),
            *_attributes_of_plugins(),
            *(line for cls in CLASSES for line in _section(cls)),
        ]
    )


def _attributes_of_plugins() -> Iterator[str]:
    yield "## A plugin's own attributes\n"
    yield from _table([one for one in members_of(Plugin).values() if not one.parameters])


def _section(cls: type) -> Iterator[str]:
    yield f"## {cls.__name__}\n"
    yield f"{_plain((inspect.getdoc(cls) or '').partition(chr(10) * 2)[0])}\n"
    yield from _table(list(members_of(cls).values()))


def _table(members: list[ClassMember]) -> Iterator[str]:
    yield "| attribute | type | what it is |\n| --- | --- | --- |"
    for one in sorted(members, key=lambda one: (bool(one.parameters), one.name)):
        type_ = one.type.replace("|", "\\|")
        yield f"| `{one.name}{one.parameters}` | `{type_}` | {_plain(one.text)} |"
    yield ""


def _plain(text: str) -> str:
    return re.sub(r"`+([^`]+)`+", r"`\1`", " ".join(text.split())).replace("|", "\\|")


if __name__ == "__main__":
    TARGET.write_text(reference())
