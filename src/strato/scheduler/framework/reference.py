"""The public attributes of the objects that plugins receive: names, types and descriptions, read from the classes.

An attribute is documented under ``Attributes:`` of the class's docstring or by a text behind the field, a property or
query (a method whose docstring begins with "Return" or "Whether") by its own docstring. ``tools/plugin_reference.py``
generates docs/plugin-types.md from this, and `strato.scheduler.framework.plugincheck` looks names up in it.
"""

from __future__ import annotations

import ast
import functools
import inspect
import re
import textwrap
from collections.abc import Iterator
from typing import Final, NamedTuple

from strato.scheduler.framework.context import CycleContext
from strato.scheduler.model.answers import Evictor, ResourceTerm, StaticScore, Validity, Verdicts
from strato.scheduler.model.jobs import Job, Layout, SubJob, Task
from strato.scheduler.model.nodes import NodeTable
from strato.scheduler.model.queues import Queue
from strato.scheduler.model.reasons import Reason
from strato.scheduler.model.tasks import TaskClass

CLASSES: Final[tuple[type, ...]] = (
    Task,
    TaskClass,
    Job,
    SubJob,
    Layout,
    Queue,
    NodeTable,
    CycleContext,
    Verdicts,
    StaticScore,
    ResourceTerm,
    Validity,
    Evictor,
    Reason,
)
"""The documented classes, in the order of the page."""

_LITERALS: Final = {bool: "bool", int: "int", float: "float", str: "str"}


class ClassMember(NamedTuple):
    """One attribute, property or query of a class."""

    name: str
    type: str
    """As annotated; of a query, what it returns. Empty when it is not annotated."""
    text: str
    """Its description; empty without one."""
    parameters: str = ""
    """Parameters of a query, in parentheses."""


@functools.cache
def members_of(cls: type) -> dict[str, ClassMember]:
    """Return the public members of a class by name, those of its bases too."""
    found: dict[str, ClassMember] = {}
    for base in reversed(cls.__mro__[:-1]):
        if base.__module__.startswith("strato."):
            for member in _own_members(base):
                known = found.get(member.name)
                found[member.name] = member if known is None else _merged(known, member)
    return found


def _merged(known: ClassMember, newer: ClassMember) -> ClassMember:
    return newer._replace(type=newer.type or known.type, text=newer.text or known.text)


def _own_members(cls: type) -> Iterator[ClassMember]:
    (node,) = ast.parse(textwrap.dedent(inspect.getsource(cls))).body
    assert isinstance(node, ast.ClassDef)
    docstring = ast.get_docstring(node) or ""
    texts, arguments = section(docstring, "Attributes"), section(docstring, "Args")
    types: dict[str, str] = {}
    for index, item in enumerate(node.body):
        if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
            types[item.target.id] = ast.unparse(item.annotation)
            behind = node.body[index + 1] if index + 1 < len(node.body) else None
            if isinstance(behind, ast.Expr) and isinstance(behind.value, ast.Constant):
                texts.setdefault(item.target.id, _one_line(str(behind.value.value)))
        elif isinstance(item, ast.FunctionDef) and not item.name.startswith("_"):
            yield from _method(item)
        elif isinstance(item, ast.FunctionDef):
            types.update({name: type_ for name, type_ in _assigned(item) if type_ or name not in types})
    for name in {**types, **texts}:
        if not name.startswith("_"):
            yield ClassMember(name, types.get(name, ""), texts.get(name) or arguments.get(name, ""))


def _method(method: ast.FunctionDef) -> Iterator[ClassMember]:
    text = _one_line((ast.get_docstring(method) or "").partition("\n\n")[0])
    returned = ast.unparse(method.returns) if method.returns is not None else ""
    if any(isinstance(mark, ast.Name) and mark.id == "property" for mark in method.decorator_list):
        yield ClassMember(method.name, returned, text)
    elif text.startswith(("Return ", "Whether ")):
        yield ClassMember(method.name, returned, text, f"({', '.join(arg.arg for arg in method.args.args[1:])})")


def _assigned(method: ast.FunctionDef) -> Iterator[tuple[str, str]]:
    """Return the attributes of ``self`` that a method assigns, with their types as far as the code shows them."""
    arguments = (*method.args.args, *method.args.kwonlyargs)
    parameters = {arg.arg: ast.unparse(arg.annotation) for arg in arguments if arg.annotation is not None}
    for node in ast.walk(method):
        if isinstance(node, ast.AnnAssign) and _is_own(node.target):
            assert isinstance(node.target, ast.Attribute)
            yield node.target.attr, ast.unparse(node.annotation)
        elif isinstance(node, ast.Assign) and method.name == "__init__":
            for target in node.targets:
                if isinstance(target, ast.Attribute) and _is_own(target):
                    yield target.attr, _type_of(node.value, parameters)


def _is_own(target: ast.expr) -> bool:
    return isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id == "self"


def _type_of(value: ast.expr, parameters: dict[str, str]) -> str:
    if isinstance(value, ast.Constant):
        return _LITERALS.get(type(value.value), "")
    if isinstance(value, ast.Name):
        return parameters.get(value.id, "")
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr == "zeros":
        return "Vector"
    return ""


def section(docstring: str, heading: str) -> dict[str, str]:
    """Return the descriptions under a heading by name; ``a, b: text`` describes both."""
    _, _, lines = docstring.partition(f"{heading}:\n")
    texts: dict[str, str] = {}
    names: list[str] = []
    for line in lines.splitlines():
        if line.strip() and not line.startswith(" "):
            break  # the next section
        start = re.match(r" {4}(\w+(?:, \w+)*): (.*)", line)
        if start:
            names = start[1].split(", ")
            texts.update(dict.fromkeys(names, start[2]))
        else:
            texts.update({name: f"{texts[name]} {line.strip()}".strip() for name in names})
    return texts


def _one_line(text: str) -> str:
    return " ".join(text.split())
