"""What the pages tell people to type is there: every command, option, target, file and manifest that is named.

The sessions themselves are typed in ``tests/e2e/test_docs.py``.
"""

from __future__ import annotations

import importlib.util
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from random import Random

import click
import pytest
import yaml

from strato.agent.policy import read_policy
from strato.agent.registry import HandlerRegistry
from strato.api import catalog
from strato.cli.main import cli
from strato.clock import VirtualClock, run_virtual
from strato.controllers.overcommit.policy import parse_policy
from strato.node.hollow.stages import parse_stages
from strato.scheduler.config import parse_config
from strato.server.audit.policy import load as load_audit_policy
from strato.server.embedded import in_memory_server
from strato.sim.experiments.file import parse_document
from strato.sim.load.experiment import read_test
from strato.sim.traces.formats.mapping import read_mapping
from strato.sim.traces.input import InputFile
from tests.server.asking import Client

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *(ROOT / p for p in ("benchmarks/README.md", "deploy/README.md")),
]
_FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_INLINE = re.compile(r"`((?:strato|make|python -m) [^`]+)`")


def blocks(page: Path, language: str) -> list[str]:
    return [text for name, text in _FENCE.findall(page.read_text()) if name == language]


def typed(page: Path) -> Iterator[str]:
    """Yield the commands of a page, one each: of its sessions and in its sentences."""
    for block in blocks(page, "console"):
        for line in block.splitlines():
            if line.startswith("$ "):
                yield from re.split(r" \| | && ", re.split(r"\s+#\s", line[2:])[0])
    for command in _INLINE.findall(_FENCE.sub("", page.read_text())):
        if "…" not in command:
            yield from alternatives(" ".join(command.split()))


def alternatives(command: str) -> list[str]:
    """Return what ``run a|b`` stands for: ``run a`` and ``run b``."""
    found = re.search(r"(?<=\s)[^\s'\"]+(\|[^\s'\"]+)+", command)
    return [command.replace(found[0], one) for one in found[0].split("|")] if found else [command]


COMMANDS = sorted({command for page in PAGES for command in typed(page)})


def understood(words: list[str]) -> None:
    """Read the words as the program does, without doing anything.

    Raises:
        click.UsageError: No such command or option.
    """
    command: click.Command = cli
    context = click.Context(cli, info_name="strato")
    while isinstance(command, click.Group):
        _, rest, _ = command.make_parser(context).parse_args(words)
        if not rest:
            return
        name, found, words = command.resolve_command(context, rest)
        assert found is not None, name
        if name == "kubectl":
            return  # what follows is kubectl's
        command, context = found, click.Context(found, context, info_name=name, **found.context_settings)
    command.make_parser(context).parse_args(words)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_the_pages_exists(command: str) -> None:
    program = command.split()[0]
    if program == "strato":
        understood(shlex.split(command)[1:])
    elif program == "make":
        targets = re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
        assert {word for word in shlex.split(command)[1:] if "=" not in word} <= set(
            targets
        )  # the others set a variable
    elif command.startswith("python -m "):
        assert importlib.util.find_spec(command.split()[2].removesuffix(".NAME")) is not None


@pytest.mark.parametrize("words", ["uo", "up --hollow-node=x --no-such", "job runn", "job run --nam x"])
def test_what_does_not_exist_would_be_noticed(words: str) -> None:
    with pytest.raises(click.UsageError):
        understood(words.split())


MANIFESTS = [
    pytest.param(text, id=f"{page.name}: {text.split(chr(10))[0]}") for page in PAGES for text in blocks(page, "yaml")
]


@pytest.mark.parametrize("text", MANIFESTS)
def test_a_manifest_of_the_pages_is_taken(text: str, tmp_path: Path) -> None:
    documents = list(yaml.safe_load_all(text))
    if documents[0].get("apiVersion") == "audit.k8s.io/v1":
        (tmp_path / "policy.yaml").write_text(text)
        load_audit_policy(tmp_path / "policy.yaml")
        return
    if (documents[0].get("metadata") or {}).get("name") == "strato-agent":
        (tmp_path / "mine.py").write_text(blocks(ROOT / "docs" / "utilisation.md", "python")[0])
        policy = read_policy(documents[0]["data"]["policy.yaml"], {}, HandlerRegistry(tmp_path))
        assert "mine" in policy.handlers
        return
    if documents[0].keys() <= {"factor", "nodes", "models"}:
        parse_policy(text)
        return
    if documents[0].get("kind") == "Stage":
        assert parse_stages(("the page", document) for document in documents)
        return
    if documents[0].get("kind") == "LoadTest":
        (tmp_path / "test.yaml").write_text(text)
        assert read_test(tmp_path / "test.yaml").expectations
        return
    if documents[0].get("kind") == "TraceMapping":
        (tmp_path / "mapping.yaml").write_text(text)
        assert read_mapping(InputFile(tmp_path / "mapping.yaml")).sources
        return
    if documents[0].get("kind") == "Experiment":
        parse_document(documents[0], "experiment.yaml", ROOT / "examples")
        return
    if "variants" in documents[0]:
        return  # an experiment, which tests/sim/utilisation reads with the traces it names
    if "actions" in documents[0] or "configurations" in documents[0]:
        parse_config(text)
        return
    clock = VirtualClock()

    async def create() -> None:
        client = Client(in_memory_server(clock, Random(1)))
        queue = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "default"}}
        for document in [queue, *documents]:
            group, _, version = document["apiVersion"].rpartition("/")
            (kind,) = (k for k in catalog.CUSTOM if (k.group, k.version, k.name) == (group, version, document["kind"]))
            place = f"/apis/{kind.api_version}/{'namespaces/default/' if kind.namespaced else ''}{kind.plural}"
            await client.ask("POST", place, document, fieldValidation="Strict")

    run_virtual(clock, create())
