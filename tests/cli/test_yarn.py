"""``strato yarn``: files in, manifests and a configuration out, and no traceback whatever the files are."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from strato.cli.main import cli, main

GOOD = """<allocations>
  <queue name="a"><weight>2</weight></queue>
  <queue name="b"><maxAMShare>0.1</maxAMShare></queue>
</allocations>
"""


def test_import_writes_queues_and_a_configuration(tmp_path: Path) -> None:
    file, out = tmp_path / "fair-scheduler.xml", tmp_path / "out"
    file.write_text(GOOD)
    result = CliRunner().invoke(cli, ["yarn", "import", str(file), "-d", str(out)], standalone_mode=False)
    assert result.output.splitlines()[0] == f"{file}:2: maps: root.a: weight: weight among its siblings"
    queues = list(yaml.safe_load_all((out / "queues.yaml").read_text()))
    assert [queue["metadata"]["name"] for queue in queues] == ["root", "a", "b"]
    config = yaml.safe_load((out / "scheduler.conf").read_text())
    assert config["tiers"][0]["plugins"][0] == {"name": "yarnfair"}
    checked = CliRunner().invoke(cli, ["config", "check", str(out / "scheduler.conf")], standalone_mode=False)
    assert checked.return_value == 0


def test_check_says_what_differs_and_what_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "fair-scheduler.xml"
    file.write_text(GOOD)
    result = CliRunner().invoke(cli, ["yarn", "check", str(file), "--am-label", "role=am"], standalone_mode=False)
    assert (result.return_value, result.output) == (0, "")
    result = CliRunner().invoke(cli, ["yarn", "check", str(file)], standalone_mode=False)
    assert result.return_value == 0
    assert f"{file}:3: differs: root.b: maxAMShare: limits nothing until" in result.output
    file.write_text(GOOD.replace("<weight>2", "<weight>-2"))
    result = CliRunner().invoke(cli, ["yarn", "check", str(file)], standalone_mode=False)
    assert result.return_value == 2
    assert f"{file}:2: refused: root.a: weight: weight -2: expected a number from 0" in result.output


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("this is no XML", "line 1: no XML"),
        ("<!DOCTYPE a [<!ENTITY b 'c'>]><allocations/>", "declares a document type or entities"),
        ("<allocations><queue name='a'>", "no XML"),
        (
            "<allocations>\n<queue name='a'><schedulingPolicy>best</schedulingPolicy></queue></allocations>",
            "line 2: root.a",
        ),
        ("<html/>", "expected <configuration>"),
    ],
)
def test_bad_files_are_refused_in_words(
    tmp_path: Path, content: str, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "f.xml"
    file.write_text(content)
    with pytest.raises(SystemExit) as caught:
        main(["yarn", "import", str(file), "-d", str(tmp_path / "out")])
    assert caught.value.code == 2
    assert text in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_resource_needs_both_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "f.xml"
    file.write_text(GOOD)
    with pytest.raises(SystemExit):
        main(["yarn", "check", str(file), "--resource", "gpu"])
    assert "expected <type in YARN>=<resource in Kubernetes>" in capsys.readouterr().err


def test_arguments_of_the_plugin_are_listed_by_name() -> None:
    result = CliRunner().invoke(cli, ["config", "arguments", "yarnfair"], standalone_mode=False)
    assert "yarnfair.waitTimeBeforeKill" in result.output
    assert "yarnfair.allocationFile" in result.output
