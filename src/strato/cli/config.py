"""``strato config``: look at the scheduler's configuration file before a scheduler does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from strato.cli.inputs import INPUT_FILE

if TYPE_CHECKING:
    from strato.scheduler.framework.options import Config


@click.group()
def config() -> None:
    """Check the scheduler's configuration and list what can be configured."""


@config.command()
@click.argument("file", type=INPUT_FILE)
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
def check(file: Path, output: str) -> int:
    """Check FILE (- is standard input), a configuration or a ConfigMap that holds one, and list every problem.

    Exit status 0 when a scheduler would take it, 2 when it would refuse it and keep the one it has.
    """
    from strato.errors import InvalidInput
    from strato.scheduler.config import parse_config, read_config_text

    try:
        read = [parse_config(text, where, file.parent) for where, text in _texts(read_config_text(file), str(file))]
    except InvalidInput as error:
        if output == "table":
            raise
        problems = [{"where": p.where, "message": p.message} for p in error.problems]
        click.echo(json.dumps({"valid": False, "problems": problems}, indent=2))
        return error.exit_code
    if output == "json":
        click.echo(json.dumps({"valid": True, "configurations": [_as_json(one) for one in read]}, indent=2))
    else:
        click.echo("\n".join(_as_text(one) for one in read))
    return 0


def _texts(text: str, where: str) -> list[tuple[str, str]]:
    """Return the configurations in a file: itself, or the ``*.conf`` entries of a ConfigMap."""
    from strato.api import yamltext

    try:
        document = yamltext.load(text)
    except (yamltext.InvalidYaml, ValueError, RecursionError):
        return [(where, text)]  # not YAML or not a ConfigMap: the parser of configurations reports the error
    if not isinstance(document, dict) or document.get("kind") != "ConfigMap":
        return [(where, text)]
    data = document.get("data")
    entries = data.items() if isinstance(data, dict) else ()
    found = [(f"{where}: data[{key}]", value) for key, value in entries if str(key).endswith(".conf")]
    return [(place, value) for place, value in found if isinstance(value, str)] or [(where, text)]


def _as_text(read: Config) -> str:
    lines = [f"valid: {', '.join(read.actions)}"]
    for number, tier in enumerate(read.tiers, 1):
        lines.append(f"  tier {number}: {', '.join(option.name for option in tier)}")
    return "\n".join(lines)


def _as_json(read: Config) -> dict[str, Any]:
    return {"actions": list(read.actions), "tiers": [[option.name for option in tier] for tier in read.tiers]}


@config.command()
@click.argument("names", nargs=-1, metavar="[NAME]...")
def arguments(names: tuple[str, ...]) -> None:
    """List actions and plugins with their arguments, the types and the defaults."""
    from strato.cli.output import fitted_table
    from strato.errors import UsageError, nearest
    from strato.scheduler.framework.thirdparty import installed, installed_names
    from strato.scheduler.registry import ACTIONS, PLUGINS

    known: dict[str, Any] = {**ACTIONS, **PLUGINS}
    known |= {name: installed(name) for name in installed_names() if name in names and name not in known}
    for name in names:
        if name not in known:
            raise UsageError(f"no such action or plugin {name!r}{nearest(name, known)}")
    rows = [row for name, part in known.items() if not names or name in names for row in _rows(name, part)]
    click.echo(fitted_table(("NAME", "KIND", "ARGUMENT", "TYPE", "DEFAULT"), rows))


def _rows(name: str, part: Any) -> list[tuple[str, str, str, str, str]]:
    import dataclasses

    from strato.scheduler.actions.base import Action

    kind = "action" if issubclass(part, Action) else "plugin"
    if part.args_type is None:
        return [(name, kind, "-", "-", "-")]
    rows = []
    for field in dataclasses.fields(part.args_type):
        default = field.default if field.default is not dataclasses.MISSING else ""
        written = json.dumps(default, default=str) if default != "" else "-"
        rows.append((name, kind, field.metadata["key"], str(field.type), written))
    return rows
