"""The Helm chart, written from the same manifests as ``strato install``.

Values are marked in the manifests as ``⟦path⟧``. A scalar that is nothing but a mark becomes the value as JSON, which
is YAML too, so that numbers, maps and lists keep their shape; a mark within a text becomes the bare value.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import yaml

from strato import __version__
from strato.api.crds.rules import MINOR_VERSION
from strato.api.meta import Json
from strato.cli.install.manifests import Resource, resources
from strato.cli.install.values import COMMENTS, DEFAULTS

_CONFIG = ".Values.custom.scheduler_config_override | default (.Files.Get .Values.basic.scheduler_config_file)"
_WHOLE = re.compile(r"""(?<=[:-] )(['"]?)⟦([^⟦⟧]+)⟧\1$""", re.MULTILINE)
_INNER = re.compile(r"⟦([^⟦⟧]+)⟧")


class _Marks:
    """`Values` for the Helm chart: each method returns a mark with the template expression of a value."""

    namespace = "⟦.Release.Namespace⟧"

    def __call__(self, path: str) -> Any:
        return f"⟦{path}⟧"

    def first(self, path: str, fallback: str) -> Any:
        section, _, name = fallback.partition(".")
        return f"⟦{_value(path)} | default {_or_empty(fallback, DEFAULTS[section][name])}⟧"

    def merged(self, base: dict[str, str], *paths: str) -> Any:
        literal = " ".join(f"`{word}`" for pair in base.items() for word in pair)
        return f"⟦merge (dict {literal}) {' '.join(f'({_value(path)} | default dict)' for path in paths)}⟧"

    def named(self, path: str) -> Any:
        return f"⟦empty {_value(path)} | ternary list (list (dict `name` {_value(path)}))⟧"

    def secret_sources(self, path: str) -> Any:
        return f"⟦empty {_value(path)} | ternary list (list (dict `secret` (dict `name` {_value(path)})))⟧"

    def unless(self, path: str, text: str) -> str:
        return f"⟦{_value(path)} | ternary `` `{text}`⟧"

    def where(self, path: str, text: str) -> str:
        return f"⟦empty {_value(path)} | ternary `` `{text}`⟧"


def chart_files(scheduler_config: str) -> dict[str, str]:
    """Return the chart's files: content by path below the chart's folder."""
    files = {"Chart.yaml": _chart(), "values.yaml": _values(), "config/volcano-scheduler.conf": scheduler_config}
    found = [resource for resource in resources(_Marks(), f"⟦{_CONFIG}⟧") if resource.part != "namespace"]
    for part, group in groupby(found, key=lambda resource: resource.part):
        if part == "crds":
            # templates, as in Volcano's chart, so that upgrades replace them; helm.sh/resource-policy keeps them on
            # uninstall
            files["templates/crds.yaml"] = "".join(map(_definition, group))
        else:
            files[f"templates/{part}.yaml"] = "".join(map(_template, group))
    return files


def write_chart(folder: Path, scheduler_config: str) -> list[Path]:
    """Write the chart and return its files.

    Raises:
        OSError: The folder cannot be written.
    """
    written = []
    for name, content in chart_files(scheduler_config).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
        written.append(path)
    return written


def _chart() -> str:
    body = {
        "apiVersion": "v2",
        "name": "strato",
        "description": "Batch scheduling for Kubernetes: Volcano's API, configuration and values",
        "type": "application",
        "version": __version__,
        "appVersion": __version__,
        "kubeVersion": f">=1.{MINOR_VERSION}.0-0",
    }
    return yaml.safe_dump(body, sort_keys=False)


def _values() -> str:
    lines = ["# Written by `strato install --chart`; names are those of Volcano's chart where they mean the same."]
    for section, members in DEFAULTS.items():
        lines += ["", f"# {COMMENTS[section]}", f"{section}:"]
        for name, value in members.items():
            comment = COMMENTS.get(f"{section}.{name}")
            if comment:
                lines.append(f"  # {comment}")
            lines.append(f"  {name}: {json.dumps(value)}")
    return "\n".join(lines) + "\n"


def _template(resource: Resource) -> str:
    services = []
    if resource.service:
        services.append(f'(has "{resource.service}" (splitList "," .Values.custom.enabled_admissions))')
    text = _WHOLE.sub(lambda m: f"{{{{ toJson {_parenthesized(m[2])} }}}}", _dump(resource.body))
    text = _INNER.sub(lambda m: f"{{{{ {_reference(m[1])} }}}}", text)
    return _under(resource.when, f"---\n{text}", services)


def _definition(resource: Resource) -> str:
    """Return the template of a definition, which has no marks; braces within it are escaped for Helm."""
    return _under(resource.when, "---\n" + _dump(resource.body).replace("{{", '{{ "{{" }}'))


def _under(paths: Sequence[str], text: str, more: Sequence[str] = ()) -> str:
    """Return a template that renders only when values, and further expressions, are true."""
    conditions = [*(f".Values.{path}" for path in paths), *more]
    if not conditions:
        return text
    test = conditions[0] if len(conditions) == 1 else f"and {' '.join(conditions)}"
    return f"{{{{- if {test} }}}}\n{text}{{{{- end }}}}\n"


def _parenthesized(path: str) -> str:
    reference = _reference(path)
    return f"({reference})" if " " in reference else reference


def _reference(path: str) -> str:
    """Return the template expression for a mark: a value's path with its default; any other expression as it is."""
    section, _, name = path.partition(".")
    if name not in DEFAULTS.get(section, {}):
        return path
    return _or_empty(path, DEFAULTS[section][name])


def _or_empty(path: str, default: Any) -> str:
    """Return the expression for a value that may be null, which stands for its default, or an empty map or list."""
    if isinstance(default, str):
        return f"{_value(path)} | default {json.dumps(default)}" if default else _value(path)
    if isinstance(default, dict | list):
        return f"{_value(path)} | default {'dict' if isinstance(default, dict) else 'list'}"
    return _value(path)


def _value(path: str) -> str:
    return f".Values.{path}"


def _dump(body: Json) -> str:
    return yaml.dump(body, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100_000)


class _Dumper(yaml.SafeDumper):
    """Writes a list that is used twice in full each time, not as a YAML anchor and alias."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def difference(folder: Path, scheduler_config: str) -> Sequence[str]:
    """Return the names of the chart's files in a folder that differ from what `chart_files` returns."""
    wanted = chart_files(scheduler_config)
    present = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    changed = [name for name, text in wanted.items() if name in present and (folder / name).read_text() != text]
    return sorted({*changed, *(present ^ set(wanted))})
