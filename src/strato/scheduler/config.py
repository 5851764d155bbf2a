"""Volcano's scheduler configuration file, decoded strictly: every problem at once, each with its place.

Unlike in Volcano, a typo never falls back to a default silently: unknown actions, plugins, toggles and arguments, and
values of the wrong type, reject the file; a running scheduler then keeps the configuration it has.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from strato.api import yamltext
from strato.api.core import Toleration
from strato.errors import InvalidInput, Problem, nearest, one_line
from strato.scheduler.actions.preempt import PreemptArgs
from strato.scheduler.cache.totals import TotalsRule
from strato.scheduler.cache.usage import METRICS_TYPES
from strato.scheduler.framework import plugincheck, thirdparty
from strato.scheduler.framework.arguments import read_arguments
from strato.scheduler.framework.options import Config, PluginOption
from strato.scheduler.framework.plugin import TOGGLES, Plugin
from strato.scheduler.framework.thirdparty import PluginNotLoaded, installed
from strato.scheduler.registry import ACTIONS, PLUGINS

STRICT_TOTALS: Final = "strict-totals"
TOTALS_TOLERATIONS: Final = "totals-tolerations"

DEFAULT_TEXT = """\
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: conformance
- plugins:
  - name: overcommit
  - name: drf
  - name: predicates
  - name: proportion
  - name: nodeorder
"""
"""The built-in configuration (spec scheduler-core 2.4)."""

EMBEDDED_TEXT = """\
actions: "enqueue, allocate, preempt, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: conformance
- plugins:
  - name: overcommit
  - name: drf
    enablePreemptable: false
  - name: predicates
  - name: proportion
  - name: nodeorder
"""
"""The configuration of the embedded cluster. There Strato is the default scheduler too, so it preempts by priority."""

AGENT_TEXT = """\
actions: "allocate"
tiers:
- plugins:
  - name: predicates
  - name: nodeorder
"""
"""The configuration of a scheduler that serves the agent scheduler's pods alone (spec volcano-agent C1)."""

_KEYS = ("actions", "tiers", "configurations", "metrics", STRICT_TOTALS, TOTALS_TOLERATIONS)


def parse_config(text: str, where: str = "scheduler configuration", base: Path = Path()) -> Config:
    """Read a configuration.

    Args:
        text: YAML or JSON.
        where: What it is called in error messages.
        base: The directory that relative paths of plugins start from.

    Raises:
        InvalidInput: Listing every problem.
    """
    try:
        document = yamltext.load(text)
    except (yamltext.InvalidYaml, ValueError, OverflowError, TypeError) as err:
        raise InvalidInput(where, [Problem("", f"not YAML: {one_line(err)}")]) from err
    except RecursionError as err:
        raise InvalidInput(where, [Problem("", "not a configuration: nested too deeply")]) from err
    return config_from(document, where, text, base)


def read_config(path: Path) -> Config:
    """Read a configuration file.

    Raises:
        InvalidInput: The file cannot be read, or listing every problem in it.
    """
    return parse_config(read_config_text(path), str(path), path.parent)


def read_config_text(path: Path) -> str:
    """Return the text of a configuration file.

    Raises:
        InvalidInput: The file cannot be read.
    """
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError) as err:
        raise InvalidInput(str(path), [Problem("", f"cannot be read: {one_line(err)}")]) from err


def reread(config: Config) -> Config:
    """Read a configuration's text again, with plugins as their files are now.

    Raises:
        InvalidInput: Listing every problem.
    """
    return parse_config(config.text, base=config.base)


def default_config() -> Config:
    """Return the built-in configuration."""
    return parse_config(DEFAULT_TEXT, "built-in scheduler configuration")


def embedded_config() -> Config:
    """Return the embedded cluster's configuration."""
    return parse_config(EMBEDDED_TEXT, "scheduler configuration of the embedded cluster")


def agent_config() -> Config:
    """Return the configuration for pods of the agent scheduler alone."""
    return parse_config(AGENT_TEXT, "built-in configuration of the agent scheduler")


def config_from(
    document: Any,
    where: str = "scheduler configuration",
    text: str = "",
    base: Path = Path(),
    *,
    combinations: bool = True,
) -> Config:
    """Read a configuration from decoded YAML or JSON.

    Args:
        document: The decoded file.
        where: What it is called in error messages.
        text: What it was decoded from.
        base: The directory that relative paths of plugins start from.
        combinations: Whether plugins that exclude each other are refused; Volcano's own tests combine some.

    Raises:
        InvalidInput: Listing every problem.
    """
    problems: list[Problem] = []
    if not isinstance(document, dict):
        raise InvalidInput(where, [Problem("", "the top level is not a mapping; expected keys: actions, tiers")])
    unknown = [str(key) for key in document if key not in _KEYS]
    problems += [Problem(key, f"no such key{nearest(key, _KEYS)}") for key in unknown]
    actions = _actions(document.get("actions"), problems)
    tiers = _tiers(document.get("tiers"), base, problems)
    if combinations:
        problems += _contradictions(tiers)
    action_args = _configurations(document.get("configurations"), problems)
    metrics = _metrics(document.get("metrics"), problems)
    totals = _totals(document, problems)
    if problems:
        raise InvalidInput(where, problems)
    preempt = action_args.get("preempt")
    aware = "preempt" in actions and isinstance(preempt, PreemptArgs) and preempt.topology_aware
    return Config(actions, tiers, action_args, metrics, text, base, topology_aware=aware, totals=totals)


def _actions(value: Any, problems: list[Problem]) -> tuple[str, ...]:
    if not isinstance(value, str):
        problems.append(Problem("actions", 'missing; write for example: "enqueue, allocate, backfill"'))
        return ()
    names = tuple(name.strip() for name in value.split(","))
    unknown = [name for name in names if name not in ACTIONS]
    problems.extend(Problem("actions", f"no such action {n!r}{nearest(n, ACTIONS)}") for n in unknown)
    return names


def _tiers(value: Any, base: Path, problems: list[Problem]) -> tuple[tuple[PluginOption, ...], ...]:
    if value is None:
        return ()
    if not isinstance(value, list):
        problems.append(Problem("tiers", "not a list"))
        return ()
    tiers = []
    for i, tier in enumerate(value):
        plugins = tier.get("plugins") if isinstance(tier, dict) else None
        if not isinstance(plugins, list):
            problems.append(Problem(f"tiers[{i}]", "has no list 'plugins'"))
            continue
        problems += [Problem(f"tiers[{i}].{k}", "no such key; known: plugins") for k in tier if k != "plugins"]
        options = [_plugin(p, f"tiers[{i}].plugins[{j}]", base, problems) for j, p in enumerate(plugins)]
        tiers.append(tuple(option for option in options if option is not None))
    return tuple(tiers)


def _contradictions(tiers: tuple[tuple[PluginOption, ...], ...]) -> list[Problem]:
    """Return what cannot be configured together (spec scheduler-core 2.4)."""
    found = []
    for i, options in enumerate(tiers):
        hierarchical = any(o.name == "drf" and o.toggles["enableHierarchy"] for o in options)
        if hierarchical and any(o.name == "proportion" for o in options):
            found.append(Problem(f"tiers[{i}]", "drf with enableHierarchy and proportion exclude each other"))
    return found


def _plugin(value: Any, where: str, base: Path, problems: list[Problem]) -> PluginOption | None:
    if not isinstance(value, dict) or not isinstance(value.get("name"), str):
        problems.append(Problem(where, "has no name"))
        return None
    path = value.get("path")
    if path is not None and not isinstance(path, str):
        problems.append(Problem(f"{where}.path", f"{path!r} is not the path of a file"))
        return None
    file = base / path if path else None
    plugin = _plugin_class(value["name"], file, where, problems)
    toggles = _toggles(value, where, problems)
    if plugin is None:
        return None
    given = value["arguments"] if value.get("arguments") is not None else {}
    args = _arguments(plugin.args_type, given, f"{where}.arguments", problems)
    problems += [Problem(f"{where}.arguments.{key}", text) for key, text in plugin.contradictions(args)]
    return PluginOption(value["name"], plugin, args, toggles, file)


def _plugin_class(name: str, file: Path | None, where: str, problems: list[Problem]) -> type[Plugin] | None:
    try:
        plugin = thirdparty.from_file(file, name) if file is not None else PLUGINS.get(name) or installed(name)
    except PluginNotLoaded as error:
        problems.append(Problem(f"{where}.path" if file is not None else f"{where}.name", str(error)))
        return None
    if plugin is None:
        known = [*PLUGINS, *thirdparty.installed_names()]
        is_a_file = name.partition(":")[0].endswith(".py")
        hint = f"; of a file say 'path: {name.partition(':')[0]}'" if is_a_file else nearest(name, known)
        problems.append(Problem(f"{where}.name", f"no such plugin {name!r}{hint}"))
    elif file is not None or name not in PLUGINS:
        mistyped = plugincheck.problems_of(plugin, file)
        if mistyped:
            problems += mistyped
            return None
    return plugin


def _toggles(value: Mapping[Any, Any], where: str, problems: list[Problem]) -> dict[str, bool]:
    toggles = dict(TOGGLES)
    for key, on in value.items():
        if key in ("name", "arguments", "path"):
            continue
        if key not in TOGGLES:
            known = [*TOGGLES, "name", "arguments", "path"]
            problems.append(Problem(f"{where}.{key}", f"no such key{nearest(str(key), known)}"))
        elif not isinstance(on, bool):
            problems.append(Problem(f"{where}.{key}", f"{on!r} is not true or false"))
        else:
            toggles[key] = on
    return toggles


def _arguments(args_type: type[Any] | None, given: Any, where: str, problems: list[Problem]) -> Any:
    if not isinstance(given, dict):
        problems.append(Problem(where, "not a mapping"))
        given = {}
    if args_type is None:
        problems.extend(Problem(f"{where}.{key}", "this plugin has no arguments") for key in given)
        return None
    args, found = read_arguments(args_type, {str(k): v for k, v in given.items()}, where)
    problems.extend(found)
    return args


def _configurations(value: Any, problems: list[Problem]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    if value is not None and not isinstance(value, list):
        problems.append(Problem("configurations", "not a list"))
        value = None
    for i, entry in enumerate(value or []):
        where = f"configurations[{i}]"
        if not isinstance(entry, dict):
            problems.append(Problem(where, "not a mapping; expected keys: name, arguments"))
            continue
        extra = [key for key in entry if key not in ("name", "arguments")]
        problems += [
            Problem(f"{where}.{key}", f"no such key{nearest(str(key), ['name', 'arguments'])}") for key in extra
        ]
        name = entry.get("name")
        action = ACTIONS.get(name) if isinstance(name, str) else None
        if action is None:
            problems.append(Problem(f"{where}.name", f"no such action {name!r}{nearest(str(name), ACTIONS)}"))
            continue
        given = entry["arguments"] if entry.get("arguments") is not None else {}
        args = _arguments(action.args_type, given, f"{where}.arguments", problems)
        out.setdefault(str(name), args)
    return out


def _totals(document: Mapping[Any, Any], problems: list[Problem]) -> TotalsRule:
    """Read which nodes count in what queues share; ours, not Volcano's."""
    strict, given = document.get(STRICT_TOTALS, False), document.get(TOTALS_TOLERATIONS)
    if not isinstance(strict, bool):
        problems.append(Problem(STRICT_TOTALS, f"{strict!r} is not true or false"))
    try:
        tolerations = msgspec.convert(given, tuple[Toleration, ...] | None)
    except msgspec.ValidationError as error:
        problems.append(Problem(TOTALS_TOLERATIONS, f"not a list of tolerations as pods have them: {error}"))
        tolerations = None
    return TotalsRule(strict=strict is True, tolerations=tolerations)


def _metrics(value: Any, problems: list[Problem]) -> dict[str, str]:
    if value is not None and not isinstance(value, dict):
        problems.append(Problem("metrics", "not a mapping"))
        return {}
    kind = (value or {}).get("type") or ""
    if kind not in ("", *METRICS_TYPES):
        problems.append(Problem("metrics.type", f"no such source {kind!r}{nearest(str(kind), list(METRICS_TYPES))}"))
    for key, part in (value or {}).items():
        if isinstance(part, dict | list):
            problems.append(Problem(f"metrics.{key}", "is not one value"))
    return {str(key): str(part) for key, part in (value or {}).items()}
