"""Sizes on the command line are Kubernetes quantities, wherever they are taken."""

from __future__ import annotations

import click
import pytest
from click.testing import CliRunner

from strato.cli.main import cli
from strato.cli.quantities import BYTES


@pytest.mark.parametrize(
    ("text", "size"),
    [("64Mi", 64 << 20), ("64M", 64_000_000), ("2Gi", 2 << 30), ("1.5Ki", 1536), ("1e9", 10**9), ("4096", 4096)],
)
def test_a_size_is_a_quantity(text: str, size: int) -> None:
    assert BYTES.convert(text, None, None) == size


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("64MB", "'64MB' is not a quantity of bytes; write for example 64Mi or 2Gi"),
        ("", "'' is not a quantity of bytes"),
        ("0", "'0' is not above zero"),
        ("-1Mi", "'-1Mi' is not above zero"),
    ],
)
def test_what_is_no_size_is_refused(text: str, why: str) -> None:
    with pytest.raises(click.BadParameter, match="^" + why):
        BYTES.convert(text, None, None)


@pytest.mark.parametrize(
    "command",
    [
        ("sim", "record", "-o", "log", "--file-size"),
        ("up", "--record", "log", "--record-file-size"),
        ("image", "pull", "busybox", "--max-size"),
    ],
    ids=" ".join,
)
def test_all_commands_read_sizes_alike(command: tuple[str, ...]) -> None:
    done = CliRunner().invoke(cli, [*command, "12 MB"])
    assert done.exit_code == 2
    assert "'12 MB' is not a quantity of bytes; write for example 64Mi or 2Gi" in done.output
