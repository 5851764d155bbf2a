"""Finds typing mistakes in the source of third-party plugins when a configuration is read, before a cycle fails.

It looks for methods and class attributes whose names nearly equal those of `Plugin`, extension points with other
parameters than they are called with, arguments that no configuration can set, and attributes that jobs, tasks, queues,
nodes or the plugin's own arguments do not have. It only checks expressions whose type is certain: parameters of
extension points, annotated parameters, what is reached from these, and ``self.args``.
"""

from __future__ import annotations

import ast
import dataclasses
import difflib
import importlib
import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import FunctionType
from typing import Any, Final, NamedTuple

from strato.errors import Problem
from strato.scheduler.framework.plugin import POINTS, Plugin
from strato.scheduler.framework.reference import CLASSES, members_of

_VIEWS: Final = ("strato.api.core", "strato.api.meta", "strato.api.scheduling", "strato.api.volcano.scheduling")
"""Modules of the API views that attributes of tasks and queues have as types."""
_KNOWN: Final[Mapping[str, type]] = {cls.__name__: cls for cls in CLASSES}
_ITEMS = re.compile(r"(?:Sequence|Iterable|Collection|list|set|frozenset)\[(\w+)\]")
_VALUES = re.compile(r"(?:dict|Mapping)\[\w+, (\w+)\]")
_NEAR, _VERY_NEAR = 0.6, 0.8

Types = Mapping[str, str]
"""Types of the names in scope, as annotations write them."""


class PluginMistake(NamedTuple):
    """One mistake."""

    line: int
    text: str


def problems_of(plugin: type[Plugin], path: Path | None = None) -> list[Problem]:
    """Return the mistakes in the source of a third-party plugin; nothing when it has no source.

    Args:
        plugin: The class.
        path: Its file; found by the module without it.
    """
    try:
        file = path or Path(inspect.getfile(plugin))
        text = file.read_text(encoding="utf-8")
    except (OSError, TypeError, ValueError):
        return []
    return [Problem(f"{file}, line {one.line}", one.text) for one in findings(text, plugin)]


def findings(text: str, plugin: type[Plugin]) -> list[PluginMistake]:
    """Return the mistakes in a plugin's source, by line."""
    tree = ast.parse(text)
    classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and node.name == plugin.__name__]
    if not classes:
        return []
    source = _Source(tree, plugin)
    found = [*source.names(classes[-1]), *source.calls(classes[-1]), *source.arguments(classes[-1])]
    for node in tree.body:
        found += source.attributes(node, {}, points=node is classes[-1])
    return sorted(set(found))


class _Source:
    """The source of one plugin."""

    def __init__(self, tree: ast.Module, plugin: type[Plugin]) -> None:
        self._plugin = plugin
        nodes = list(ast.walk(tree))
        self._used = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
        """Attributes that the file itself uses; a method among them is the plugin's own, not a misspelt point."""
        texts = (node.value for node in nodes if isinstance(node, ast.Constant))
        self._quoted = {text for text in texts if isinstance(text, str)}
        """Strings in the file; an attribute among them, as for ``hasattr`` or ``getattr``, may be missing."""

    def names(self, cls: ast.ClassDef) -> Iterator[PluginMistake]:
        """Find methods and class attributes whose names nearly equal those of `Plugin`."""
        asked = [name for name in vars(Plugin) if not name.startswith("_")]
        settings = [name for name in asked if not callable(getattr(Plugin, name))]
        for item in cls.body:
            if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef):
                known, what = [name for name in asked if name not in settings], "extension point"
                names, limit = [item.name], _NEAR
            elif isinstance(item, ast.Assign | ast.AnnAssign):
                targets = item.targets if isinstance(item, ast.Assign) else [item.target]
                names = [target.id for target in targets if isinstance(target, ast.Name)]
                known, what, limit = settings, "attribute of a plugin", _VERY_NEAR
            else:
                continue
            for name in names:
                if name.startswith("_") or name in self._used or name in asked:
                    continue
                near = difflib.get_close_matches(name, known, n=1, cutoff=limit)
                if near:
                    yield PluginMistake(item.lineno, f"{cls.name}.{name} is no {what}; did you mean {near[0]!r}?")

    def calls(self, cls: ast.ClassDef) -> Iterator[PluginMistake]:
        """Find extension points with other parameters than the scheduler passes."""
        for item in cls.body:
            if not isinstance(item, ast.FunctionDef) or item.name not in POINTS:
                continue
            method = vars(self._plugin).get(item.name)
            if not isinstance(method, FunctionType):
                continue
            given = list(inspect.signature(vars(Plugin)[item.name]).parameters)
            try:
                inspect.signature(method).bind(*given)
            except TypeError:
                wanted = ", ".join(given)
                yield PluginMistake(item.lineno, f"{cls.name}.{item.name} is called with ({wanted}); take the same")

    def arguments(self, cls: ast.ClassDef) -> Iterator[PluginMistake]:
        """Find arguments that no configuration could set."""
        args = self._plugin.args_type
        if args is None:
            return
        if not dataclasses.is_dataclass(args):
            yield PluginMistake(
                cls.lineno, f"{cls.name}.args_type is no dataclass; declare it with @dataclass(frozen=True)"
            )
            return
        for field in dataclasses.fields(args):
            if "key" not in field.metadata:
                name = f"{args.__name__}.{field.name}"
                yield PluginMistake(cls.lineno, f"{name} has no key; declare it with arg({field.name!r}, DEFAULT)")

    # -- attributes ----------------------------------------------------------------------------------------------------

    def attributes(self, node: ast.AST, types: Types, *, points: bool = False) -> Iterator[PluginMistake]:
        """Find attributes that their holder's type lacks; ``points``: functions directly below are extension points."""
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            types = self._inside(node, types)
        elif isinstance(node, ast.GeneratorExp | ast.ListComp | ast.SetComp | ast.DictComp):
            for loop in node.generators:
                types = self._looped(loop.target, loop.iter, types)
        elif isinstance(node, ast.Attribute):
            yield from self._judged(node, types)
        for child in ast.iter_child_nodes(node):
            inner = types
            if points and isinstance(child, ast.FunctionDef):
                inner = {**types, "self": "self"}
            yield from self.attributes(child, inner)

    def _inside(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, types: Types) -> Types:
        """Return the types of names within a function; names assigned there have no certain type."""
        given = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
        found = {arg.arg: ast.unparse(arg.annotation) if arg.annotation is not None else "" for arg in given}
        if not isinstance(node, ast.Lambda) and types.get("self") == "self" and node.name in POINTS:
            contract = list(inspect.signature(vars(Plugin)[node.name]).parameters.values())
            found.update({arg.arg: str(want.annotation) for arg, want in zip(given, contract, strict=False)})
        if given and given[0].arg == "self" and types.get("self") == "self":
            found["self"] = "self"
        stored = [n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
        inner = {**types, **found}
        loops = [n for n in ast.walk(node) if isinstance(n, ast.For) and isinstance(n.target, ast.Name)]
        for name in stored:
            inner[name] = ""
        for loop in loops:
            assert isinstance(loop.target, ast.Name)
            if stored.count(loop.target.id) == 1:
                inner = dict(self._looped(loop.target, loop.iter, inner))
        return inner

    def _looped(self, target: ast.expr, among: ast.expr, types: Types) -> Types:
        names = [node.id for node in ast.walk(target) if isinstance(node, ast.Name)]
        items = _ITEMS.fullmatch(self._type(among, types))
        of_each = items[1] if items is not None and isinstance(target, ast.Name) else ""
        return {**types, **dict.fromkeys(names, of_each)}

    def _type(self, node: ast.expr, types: Types) -> str:
        """Return the type of an expression; empty when it is not certain."""
        found = ""
        if isinstance(node, ast.Name):
            found = types.get(node.id, "")
        elif isinstance(node, ast.Attribute):
            found = self._attribute_type(self._type(node.value, types), node.attr)
        elif isinstance(node, ast.Subscript):
            holder = self._type(node.value, types)
            value = _VALUES.fullmatch(holder) or _ITEMS.fullmatch(holder)
            found = value[1] if value is not None and not isinstance(node.slice, ast.Slice) else ""
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "values":
            value = _VALUES.fullmatch(self._type(node.func.value, types))
            found = f"Iterable[{value[1]}]" if value is not None else ""
        return found.removesuffix(" | None").strip("'\"")

    def _attribute_type(self, holder: str, name: str) -> str:
        if holder == "self":
            return "self.args" if name == "args" else ""
        cls = _class_of(holder)
        if cls is None:
            return ""
        if cls in CLASSES:
            member = members_of(cls).get(name)
            return member.type if member is not None and not member.parameters else ""
        return next((str(vars(base)["__annotations__"][name]) for base in cls.__mro__ if name in _annotated(base)), "")

    def _judged(self, node: ast.Attribute, types: Types) -> Iterator[PluginMistake]:
        holder = self._type(node.value, types)
        cls: Any = self._plugin.args_type if holder == "self.args" else _class_of(holder)
        if cls is None or node.attr in self._quoted or node.attr.startswith("_"):
            return
        names = _names_of(cls)
        if node.attr not in names:
            near = difflib.get_close_matches(node.attr, sorted(names), n=1, cutoff=_NEAR)
            hint = f"; did you mean {near[0]!r}?" if near else f"; it has {', '.join(sorted(names))}"
            yield PluginMistake(node.lineno, f"{ast.unparse(node)}: {cls.__name__} has no {node.attr!r}{hint}")


def _class_of(type_: str) -> type | None:
    """Return the class that an annotation names, if its attributes are known."""
    found = _KNOWN.get(type_)
    if found is not None or not type_.isidentifier():
        return found
    for module in _VIEWS:
        view = getattr(importlib.import_module(module), type_, None)
        if isinstance(view, type) and hasattr(view, "__struct_fields__"):
            return view
    return None


def _annotated(cls: type) -> Mapping[str, Any]:
    found: Mapping[str, Any] = vars(cls).get("__annotations__") or {}
    return found


def _names_of(cls: type) -> set[str]:
    names: Sequence[str] = [*dir(cls), *(members_of(cls) if cls in CLASSES else ())]
    return {name for name in names if not name.startswith("_")}
