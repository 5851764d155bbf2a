"""The experiments that are shipped, and the one on the page about them, can be read."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from strato.errors import InvalidInput
from strato.sim.utilisation.options import parse_experiment, read_experiment

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("name", ["deployment.yaml", "small.yaml"])
def test_an_example_is_read(name: str) -> None:
    assert "all" in read_experiment(ROOT / "examples" / "utilisation" / name).variants


def test_the_file_of_the_page_lacks_only_its_trace() -> None:
    page = (ROOT / "docs" / "experiments.md").read_text()
    (text,) = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    with pytest.raises(InvalidInput) as caught:
        parse_experiment(text, "page", ROOT / "docs")
    assert [one.where for one in caught.value.problems] == ["traces.vms.file"]
