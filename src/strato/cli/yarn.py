"""``strato yarn``: carry the queues of a YARN cluster over."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from strato.cli.inputs import INPUT_FILE

if TYPE_CHECKING:
    from strato.interop.yarn.importing import Imported, ImportedLine, ImportOptions, Sources

IMPORTERS: Mapping[str, str] = {
    "fair": "strato.interop.yarn.fairimport",
    "capacity": "strato.interop.yarn.capacityimport",
}
"""The module with the functions ``imported`` and ``checked``, by YARN's scheduler."""


@click.group()
def yarn() -> None:
    """Carry the queues of a YARN cluster over: fair-scheduler.xml, capacity-scheduler.xml, yarn-site.xml."""


def _options(command: Any) -> Any:
    for option in (
        click.option(
            "--resource",
            "resources",
            multiple=True,
            metavar="TYPE=NAME",
            help="What a resource type is called in Kubernetes: yarn.io/fpga=example.com/fpga.",
        ),
        click.option(
            "--user-key", default="", metavar="KEY", help="Label or annotation of jobs that names their user."
        ),
        click.option(
            "--am-label", default="", metavar="KEY=VALUE", help="Label of pods that are application masters or drivers."
        ),
    ):
        command = option(command)
    return click.argument("files", nargs=-1, required=True, type=INPUT_FILE, metavar="FILE...")(command)


@yarn.command(name="import")
@_options
@click.option(
    "-d",
    "--directory",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path(),
    help="Where queues.yaml and scheduler.conf are written. Default: here.",
)
def import_(files: tuple[Path, ...], resources: tuple[str, ...], user_key: str, am_label: str, directory: Path) -> None:
    """Write Queue manifests and a scheduler configuration that do what FILEs say, and what becomes of every line.

    Each line of the report says: maps (as it was), differs (maps, but behaves differently), missing (no counterpart).
    Files that YARN refuses, or whose lines do not mean what they say, are refused with all their problems.
    """
    from strato.cli.outputs import OutputFile
    from strato.interop.yarn.fairimport import summary

    sources, options = _sources(files), _import_options(resources, user_key, am_label)
    made: Imported = _importer(sources).imported(sources, options)
    directory.mkdir(parents=True, exist_ok=True)
    OutputFile(directory / "queues.yaml").write(_yaml_of(list(made.queues), many=True))
    OutputFile(directory / "scheduler.conf").write(_yaml_of(made.config, many=False))
    _print(list(made.lines))
    click.echo(f"{summary(made.lines)}: {len(made.queues)} queues in {directory / 'queues.yaml'}", err=True)


@yarn.command()
@_options
def check(files: tuple[Path, ...], resources: tuple[str, ...], user_key: str, am_label: str) -> int:
    """Say what is wrong with FILEs, and what of them would not do here what it does in YARN.

    Exit status 0 when they can be imported, 2 when not.
    """
    from strato.interop.yarn.importing import REFUSED

    sources, options = _sources(files), _import_options(resources, user_key, am_label)
    lines: list[ImportedLine] = _importer(sources).checked(sources, options)
    _print(lines)
    return 2 if any(line.becomes == REFUSED for line in lines) else 0


def _sources(files: tuple[Path, ...]) -> Sources:
    from strato.interop.yarn.importing import sorted_sources

    return sorted_sources(files)


def _importer(sources: Sources) -> Any:
    from strato.errors import UsageError

    if importlib.util.find_spec(IMPORTERS[sources.kind]) is None:
        raise UsageError(f"{sources.file}: queues of the {sources.kind} scheduler cannot be imported")
    return importlib.import_module(IMPORTERS[sources.kind])


def _import_options(resources: tuple[str, ...], user_key: str, am_label: str) -> ImportOptions:
    from strato.interop.yarn.importing import ImportOptions

    named: dict[str, str] = {}
    for text in resources:
        name, equals, resource = text.partition("=")
        if not equals or not name or not resource:
            raise click.BadParameter(
                f"{text!r}: expected <type in YARN>=<resource in Kubernetes>", param_hint="--resource"
            )
        named[name] = resource
    return ImportOptions(named, user_key, am_label)


def _print(lines: list[ImportedLine]) -> None:
    for line in lines:
        click.echo(str(line))


def _yaml_of(document: Any, *, many: bool) -> bytes:
    import yaml

    dump = yaml.safe_dump_all if many else yaml.safe_dump
    return str(dump(document, sort_keys=False, width=100)).encode()
