"""What reads texts of others takes time in proportion to them: eight times the text, some eight times the CPU.

Beside the regular expressions (`tests.test_regular_expressions`) these are the readers that go over a text by hand. A
reader that is quadratic needs 64 times as long for eight times the text; 30 is in between, and what is over in a few
hundredths of a second is not compared. CPU time of the thread is measured, the least of three tries.
"""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from strato.agent.policy import read_policy
from strato.agent.registry import HandlerRegistry
from strato.agent.volcano.config import read_colocation
from strato.api import mail, quantity, selectors, yamltext
from strato.cli.job.timelimit import parse_time_limit
from strato.cli.submit.script import Script
from strato.cli.volcano.texts import sorted_yaml
from strato.errors import StratoError, shortened
from strato.interop.mesos import resourcetext
from strato.interop.slurm import formats, texts
from strato.interop.yarn import hadoopxml
from strato.interop.yarn.capacity import notation as capacity_notation
from strato.interop.yarn.fair import notation as fair_notation
from strato.interop.yarn.resources import ResourceTypes
from strato.node.hollow.commandlines import run_of
from strato.node.hollow.distributions import parse_distribution
from strato.node.hollow.failures import parse_failure
from strato.node.hollow.stages.functions import KNOWN
from strato.node.hollow.stages.gotemplate import GoTemplate, TemplateFailed
from strato.node.hollow.stages.jq import compile_query
from strato.node.images.references import parse_reference
from strato.node.shapes import parse_nodes
from strato.scheduler.config import parse_config
from strato.sim.recording.anonymise import Anonymiser
from strato.sim.traces.cells import Names, cleaned_name
from strato.sim.traces.formats.ours import FORMAT
from strato.sim.traces.input import InputFile, rows_of
from strato.sim.traces.oddities import Oddities
from strato.sim.traces.reading import Reading, ReadOptions
from strato.sim.utilisation.usetraces import parse_use_trace
from strato.sim.workloads import spec
from strato.units import duration_seconds

SMALL, TIMES = 2_000, 8
"""Repetitions in the shorter text, and how many times as many the longer one has."""
FREE_SECONDS = 0.04
MOST_GROWTH = 30.0

TYPES = ResourceTypes()


def _jobs(text: str, folder: Path) -> object:
    path = folder / "jobs.csv"
    path.write_text(text)
    reading = Reading(ReadOptions(), Oddities(strict=False))
    FORMAT.read([InputFile(path)], reading)
    return reading.trace("strato")


def _render(text: str) -> str:
    return GoTemplate(text, KNOWN).render({"a": ["b"] * 50})


READERS: dict[str, Callable[[str], object]] = {
    "durations": duration_seconds,
    "quantities": quantity.parse,
    "label selectors": selectors.parse_selector,
    "field selectors": selectors.parse_field_selector,
    "YAML": yamltext.load,
    "mail addresses": mail.parse_addresses,
    "time limits": parse_time_limit,
    "batch scripts": lambda text: Script.read("file", f"#!/bin/sh\n#SBATCH {text}".encode()),
    "YAML of Volcano": lambda text: sorted_yaml({"a": text}),
    "long lines": shortened,
    "Mesos resources": resourcetext.parse,
    "lists of hosts": lambda text: texts.hostlist(text.split(",")),
    "Slurm's formats": lambda text: formats.short_columns(text, {}),
    "Hadoop's XML": lambda text: hadoopxml.parse(f"<a>{text}</a>"),
    "Hadoop's values": lambda text: hadoopxml.HadoopSettings.from_mapping({"a": text, "b": "c"}).get("a"),
    "amounts of the Capacity Scheduler": lambda text: capacity_notation.parse(text, TYPES),
    "amounts of the Fair Scheduler": lambda text: fair_notation.parse(text[:4096], TYPES),
    "words of commands": lambda text: run_of(text.split(" ")),
    "command lines": lambda text: run_of(["sh", "-c", text]),
    "distributions": parse_distribution,
    "failures": parse_failure,
    "templates": _render,
    "queries": compile_query,
    "names of images": parse_reference,
    "shapes of nodes": parse_nodes,
    "configurations": lambda text: parse_config(text, "file"),
    "policies of the agent": lambda text: read_policy(text, {}, HandlerRegistry()),
    "colocation": lambda text: read_colocation(text, {}),
    "hidden names": Anonymiser(b"key").text,
    "rows": lambda text: list(rows_of("file", iter(text.splitlines(keepends=True)), Oddities(strict=False))),
    "names of traces": lambda text: [cleaned_name(text, 40), Names("job").new(text)],
    "use traces": parse_use_trace,
    "workloads": lambda text: spec.make(f"lublin:{text}", lambda _: pytest.fail("there is no file")),
}
PIECES = (
    "0", "9", "a", "A", " ", "\t", "\n", ",", ";", ":", ".", "-", "_", "=", "(", ")", "[", "]", "{", "}", "<", "/",
    "\\", "'", '"', "%", "$", "|", "&", "#", "+", "*", "!", "0.", "-0", "0_", ".0", "a0", "a ", " a", "a,", "a=",
    "a:", ",0", "0-", "1-2,", "1x", "${", "${b}", "$(", "{{", "}}", "{{.}}", "{{ .a }}", "<a>", "<a/>", "<!---->x",
    "<![CDATA[x]]>", "&#10;x", "a: b\n", "- ", "a;", "1s", "1h", "10mb,", "1%,", "--a", "-a ", "a\n", ",\n", '"\n',
    "x,0,1\n", "a=b,", "a=b ", "exec ", "n1,", "jobs=", "1x1cpu+", "sleep 1;", "set -e;", "cpus:1;", "a(b):1;", ".a|",
    ".a[0]", "not a,", "a in (b),", "é", "\u2028", "\x00",
)  # fmt: skip


def _seconds(read: Callable[[str], object], text: str) -> float:
    least = float("inf")
    for _ in range(3):
        begun = time.thread_time()
        with contextlib.suppress(StratoError, ValueError, TemplateFailed, msgspec.MsgspecError, RecursionError):
            read(text)
        least = min(least, time.thread_time() - begun)
        if least < FREE_SECONDS:
            break
    return least


@pytest.mark.attack
@pytest.mark.parametrize("name", READERS)
def test_eight_times_the_text_takes_some_eight_times_as_long(name: str) -> None:
    read = READERS[name]
    found = {}
    for piece in PIECES:
        long = _seconds(read, piece * (TIMES * SMALL) + "\x01")
        if long > FREE_SECONDS and long > MOST_GROWTH * _seconds(read, piece * SMALL + "\x01"):
            found[piece] = long
    assert found == {}


def test_jobs_of_equal_names_take_as_long_as_others(tmp_path: Path) -> None:
    def text(count: int) -> str:
        return "name,submit,run_time,after\n" + "a,0,1,a\n" * count

    many = _seconds(lambda text: _jobs(text, tmp_path), text(TIMES * SMALL))
    assert many < MOST_GROWTH * _seconds(lambda text: _jobs(text, tmp_path), text(SMALL))


def test_what_is_quadratic_is_found() -> None:
    def read(text: str) -> None:
        for at in range(0, len(text), 16):
            text.count("\x01", at)

    rng = random.Random(1)
    text = "".join(rng.choice("ab") for _ in range(SMALL * 8))
    assert _seconds(read, text * TIMES) > MOST_GROWTH * _seconds(read, text)
