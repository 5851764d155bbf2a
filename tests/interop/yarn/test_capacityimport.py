"""Importing capacity-scheduler.xml: what becomes of every line, and that the result is a configuration that works."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from strato.api.joblifetimes import DEFAULT, MAXIMUM
from strato.api.queueacls import SUBMIT
from strato.errors import InvalidInput
from strato.interop.yarn import capacityimport, importing
from strato.interop.yarn.hadoopxml import HEARTBEAT, Setting
from strato.interop.yarn.importing import DIFFERS, MAPS, MISSING, ImportOptions
from strato.scheduler.config import parse_config

PREFIX = "yarn.scheduler.capacity."
SETTINGS = {
    "root.queues": "prod,adhoc",
    "root.prod.capacity": "70",
    "root.prod.maximum-capacity": "60",
    "root.adhoc.capacity": "30",
    "root.adhoc.priority": "5",
    "root.adhoc.acl_submit_applications": "ada",
    "root.adhoc.user-limit-factor": "2",
    "maximum-am-resource-percent": "0.2",
    "root.old.capacity": "5",
    "root.adhoc.surprise": "1",
    "queue-mappings": "u:%user:adhoc",
}
SITE = {"yarn.resourcemanager.scheduler.monitor.enable": "true", "yarn.scheduler.maximum-allocation-mb": "16384"}


def write(path: Path, settings: dict[str, str]) -> Path:
    rows = [f"<property><name>{name}</name><value>{value}</value></property>" for name, value in settings.items()]
    path.write_text("\n".join(["<configuration>", *rows, "</configuration>"]), encoding="utf-8")
    return path


def sources(folder: Path, changes: dict[str, str] | None = None, site: bool = True) -> importing.Sources:
    own = {PREFIX + name: value for name, value in {**SETTINGS, **(changes or {})}.items()}
    files = [write(folder / "capacity-scheduler.xml", own)]
    if site:
        files.append(write(folder / "yarn-site.xml", SITE))
    return importing.sorted_sources(files)


def test_every_line_is_accounted_for(tmp_path: Path) -> None:
    made = capacityimport.imported(sources(tmp_path), ImportOptions())
    found = {(line.what, line.becomes): line for line in made.lines}
    assert {line.what for line in made.lines} == {*SETTINGS, *SITE}
    for what, becomes in (
        ("root.queues", MAPS),
        ("root.prod.maximum-capacity", MAPS),
        ("root.prod.maximum-capacity", DIFFERS),
        ("root.adhoc.acl_submit_applications", MAPS),
        ("root.adhoc.acl_submit_applications", DIFFERS),
        ("root.adhoc.user-limit-factor", DIFFERS),
        ("maximum-am-resource-percent", DIFFERS),
        ("root.old.capacity", MISSING),
        ("root.adhoc.surprise", MISSING),
        ("queue-mappings", DIFFERS),
        ("yarn.resourcemanager.scheduler.monitor.enable", MAPS),
    ):
        assert (what, becomes) in found, (what, becomes)
    assert found["root.adhoc.priority", MAPS].line == 6
    assert "no queue below root has this name" in found["root.old.capacity", MISSING].text
    assert found["yarn.scheduler.maximum-allocation-mb", MISSING].file.endswith("yarn-site.xml")


def test_access_lists_become_annotations_with_the_open_root_of_yarn(tmp_path: Path) -> None:
    made = capacityimport.imported(sources(tmp_path), ImportOptions())
    found = {queue["metadata"]["name"]: queue["metadata"]["annotations"].get(SUBMIT) for queue in made.queues}
    assert found == {"root": "*", "prod": None, "adhoc": "ada"}
    guarded = capacityimport.imported(sources(tmp_path, {"root.acl_submit_applications": " "}), ImportOptions())
    assert guarded.queues[0]["metadata"]["annotations"][SUBMIT] == " "
    assert not any("keeps nobody out" in line.text for line in guarded.lines)


def test_users_and_masters_map_once_they_are_named(tmp_path: Path) -> None:
    options = ImportOptions(user_key="owner", master_label="role=am")
    lines = capacityimport.checked(sources(tmp_path), options)
    assert not {"root.adhoc.user-limit-factor", "maximum-am-resource-percent"} & {line.what for line in lines}


def test_the_configuration_names_the_file_and_what_other_files_set(tmp_path: Path) -> None:
    made = capacityimport.imported(sources(tmp_path), ImportOptions())
    assert {queue["metadata"]["name"]: queue["spec"].get("parent") for queue in made.queues} == {
        "root": None,
        "prod": "root",
        "adhoc": "root",
    }
    assert made.queues[2]["spec"]["priority"] == 5
    rules = parse_config(yaml.safe_dump(dict(made.config)))
    args = rules.tiers[0][0].args
    assert args.file == str(tmp_path / "capacity-scheduler.xml")
    assert args.properties["yarn.resourcemanager.scheduler.monitor.enable"] == "true"
    assert "reclaim" in rules.actions


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        pytest.param({"root.prod.capacity": "80"}, "sum up to 110 %", id="sums"),
        pytest.param({"root.prod.capacity": "2w"}, "different ways", id="ways of counting"),
        pytest.param({"root.prod.capacity": "x"}, "line 3: yarn.scheduler.capacity.root.prod.capacity: 'x'", id="line"),
        pytest.param({"queue-mappings": "u:alice"}, "expected u:USER:QUEUE", id="mapping"),
        pytest.param({"root.prod.ordering-policy": "best"}, "known: fifo, fair", id="policy"),
    ],
)
def test_files_that_yarn_refuses_are_refused(tmp_path: Path, changes: dict[str, str], words: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        capacityimport.imported(sources(tmp_path, changes), ImportOptions())
    assert words in str(caught.value)


def test_types_of_resources_need_a_name_in_kubernetes(tmp_path: Path) -> None:
    given = sources(tmp_path, {"yarn.resource-types": ""})
    given.settings.by_name["yarn.resource-types"] = given.settings.by_name[PREFIX + "root.queues"].__class__(
        "yarn.resource-types", "yarn.io/gpu,yarn.io/fpga", 1
    )
    with pytest.raises(InvalidInput, match=r"--resource yarn.io/fpga=<name>"):
        capacityimport.imported(given, ImportOptions())
    made = capacityimport.imported(given, ImportOptions(resources={"yarn.io/fpga": "example.com/fpga"}))
    arguments = made.config["tiers"][0]["plugins"][0]["arguments"]
    assert arguments["yarncapacity.resources"] == "yarn.io/gpu=nvidia.com/gpu, yarn.io/fpga=example.com/fpga"


def test_lifetimes_become_annotations_where_the_file_has_them(tmp_path: Path) -> None:
    changes = {"root.maximum-application-lifetime": "3600", "root.prod.default-application-lifetime": "60"}
    made = capacityimport.imported(sources(tmp_path, changes), ImportOptions())
    found = {queue["metadata"]["name"]: queue["metadata"]["annotations"] for queue in made.queues}
    assert found["root"][MAXIMUM] == "3600"
    assert found["prod"][DEFAULT] == "60"
    assert MAXIMUM not in found["prod"]
    assert {line.becomes for line in made.lines if "lifetime" in line.what} == {MAPS}


def test_reservations_and_waits_for_nodes_map(tmp_path: Path) -> None:
    changes = {
        "reservations-continue-look-all-nodes": "false",
        "node-locality-delay": "40",
        "rack-locality-additional-delay": "-1",
        "rack-locality-full-reset": "true",
    }
    made = capacityimport.imported(sources(tmp_path, changes), ImportOptions())
    becomes = {line.what: line.becomes for line in made.lines if line.what in changes}
    assert becomes == {**dict.fromkeys(changes, MAPS), "rack-locality-full-reset": MISSING}


def test_the_heartbeat_of_nodes_is_carried_over(tmp_path: Path) -> None:
    given = sources(tmp_path)
    given.settings.by_name[HEARTBEAT] = Setting(HEARTBEAT, "500", 1)
    made = capacityimport.imported(given, ImportOptions())
    arguments = made.config["tiers"][0]["plugins"][0]["arguments"]
    assert arguments["yarncapacity.properties"][HEARTBEAT] == "500"
