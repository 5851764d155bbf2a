"""Importing allocation files: what becomes of every line, and that the result shares as the file says."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from strato.api.queueacls import SUBMIT
from strato.api.volcano.scheduling import Queue as QueueView
from strato.errors import InvalidInput
from strato.interop.yarn import fairimport, hadoopxml, importing
from strato.interop.yarn.fair import allocationfile
from strato.interop.yarn.fairplugin.sources import from_annotations
from strato.interop.yarn.hadoopxml import Setting
from strato.interop.yarn.importing import ImportOptions, Sources
from strato.interop.yarn.resources import ResourceTypes
from strato.scheduler.config import parse_config
from strato.scheduler.model.queues import Queue
from strato.scheduler.model.resources import Dimensions

XML = """<allocations>
<queue name="prod" type="parent"><weight>3</weight><schedulingMode>drf</schedulingMode>
<queue name="ETL_1"><maxRunningApps>10</maxRunningApps><maxAMShare>0.3</maxAMShare></queue>
<queue name="etl-1"><minResources>1024 mb, 1 vcores</minResources><aclSubmitApps>a</aclSubmitApps></queue></queue>
<queue name="adhoc"><allowPreemptionFrom>false</allowPreemptionFrom><surprise/></queue>
<user name="ada"><maxRunningApps>3</maxRunningApps></user>
<user name="ada@example.com"><maxRunningApps>3</maxRunningApps></user>
<defaultQueueSchedulingPolicy>drf</defaultQueueSchedulingPolicy>
<queuePlacementPolicy><rule name="specified"/><rule name="default"/></queuePlacementPolicy>
</allocations>"""


def sources(xml: str = XML, **site: str) -> Sources:
    settings = hadoopxml.HadoopSettings.from_mapping(
        {name.replace("_", "."): value for name, value in site.items()}, "site"
    )
    return Sources(importing.FAIR, "f.xml", hadoopxml.parse(xml, "f.xml"), settings)


def queues_of(imported: importing.Imported) -> list[Queue]:
    found = []
    for manifest in imported.queues:
        queue = Queue(manifest["metadata"]["name"], Dimensions())
        queue.view = hadoop_view(manifest)
        found.append(queue)
    return found


def hadoop_view(manifest: object) -> QueueView:
    import msgspec

    return msgspec.convert(manifest, QueueView)


def test_annotations_say_the_same_as_the_file() -> None:
    made = fairimport.imported(sources(), ImportOptions())
    back = from_annotations(queues_of(made), ResourceTypes())
    read = allocationfile.read(hadoopxml.parse(XML), ResourceTypes())
    for path in ("root", "root.prod", "root.prod.ETL_1", "root.prod.etl-1", "root.adhoc", "root.undeclared"):
        mine, theirs = back.settings_of(path), read.settings_of(path)
        for field in ("min_share", "max_share", "max_apps", "max_am_share", "weight", "policy", "preemptable"):
            assert getattr(mine, field) == getattr(theirs, field), (path, field)
        assert (path in back.queues and back.queues[path].is_parent) == (path in ("root", "root.prod"))
    assert back.user_max_apps == {"ada": 3}


def test_names_are_those_kubernetes_allows_and_stay_apart() -> None:
    made = fairimport.imported(sources(), ImportOptions())
    found = {queue["metadata"]["name"]: queue["spec"].get("parent") for queue in made.queues}
    assert found == {"root": None, "prod": "root", "prod-etl-1": "prod", "prod-etl-1-2": "prod", "adhoc": "root"}


@given(st.lists(st.text("aB_. -é", min_size=1, max_size=80), unique=True, max_size=8))
def test_any_queues_get_names_of_their_own(paths: list[str]) -> None:
    names = list(importing.queue_names(f"root.{path}" for path in paths).values())
    assert len(set(names)) == len(paths)
    assert all(0 < len(name) <= 63 and name[0].isalnum() and name[-1].isalnum() for name in names)


def test_every_line_is_accounted_for() -> None:
    lines = fairimport.imported(sources(yarn_scheduler_fair_assignmultiple="true"), ImportOptions()).lines
    said = {line.what: line.becomes for line in lines}
    assert said == {
        "root.prod: weight": "maps",
        "root.prod: schedulingMode": "maps",
        "root.prod.ETL_1: maxRunningApps": "maps",
        "root.prod.ETL_1: maxAMShare": "differs",
        "root.prod.etl-1: minResources": "maps",
        "root.prod.etl-1: aclSubmitApps": "differs",
        "root.adhoc: allowPreemptionFrom": "maps",
        "root.adhoc": "missing",
        "user ada: maxRunningApps": "differs",
        "user ada@example.com: maxRunningApps": "missing",
        "defaultQueueSchedulingPolicy": "maps",
        "queuePlacementPolicy": "differs",
        "yarn.scheduler.fair.assignmultiple": "missing",
    }
    assert next(line for line in lines if line.what == "root.adhoc").text.startswith("<surprise>")
    assert fairimport.summary(lines) == "6 maps, 4 differs, 3 missing"


def test_options_become_arguments_that_a_scheduler_takes() -> None:
    site = {
        "yarn_scheduler_fair_preemption": "true",
        "yarn_scheduler_fair_waitTimeBeforeKill": "5000",
        "yarn_scheduler_fair_sizebasedweight": "true",
        "yarn_resource-types": "gpu",
    }
    made = fairimport.imported(sources(**site), ImportOptions({}, "owner", "role=am"))
    config = parse_config(yaml.safe_dump(dict(made.config)))
    arguments = config.tiers[0][0].args
    assert config.actions == ("enqueue", "allocate", "preempt", "reclaim", "backfill")
    assert arguments.wait_before_kill_ms == 5000
    assert arguments.size_based_weight
    assert arguments.resources == {"gpu": "nvidia.com/gpu"}
    assert (arguments.user, arguments.master) == ("owner", "role=am")


@pytest.mark.parametrize("continuous", [True, False])
def test_reservations_and_waits_for_nodes_become_arguments(continuous: bool) -> None:
    settings = {
        "yarn.scheduler.fair.reservable-nodes": "0.2",
        "yarn.scheduler.reservation-threshold.increment-multiple": "3",
        "yarn.scheduler.fair.locality.threshold.node": "0.5",
        "yarn.scheduler.fair.locality.threshold.rack": "0.7",
        "yarn.scheduler.fair.locality-delay-node-ms": "100",
        "yarn.scheduler.fair.locality-delay-rack-ms": "200",
        "yarn.resourcemanager.nodemanagers.heartbeat-interval-ms": "500",
    }
    given = sources()
    given.settings.by_name.update({name: Setting(name, value, 1) for name, value in settings.items()})
    if continuous:
        name = "yarn.scheduler.fair.continuous-scheduling-enabled"
        given.settings.by_name[name] = Setting(name, "true", 1)
    made = fairimport.imported(given, ImportOptions())
    assert {line.becomes for line in made.lines if line.what in settings} == {"maps"}
    args = parse_config(yaml.safe_dump(dict(made.config))).tiers[0][0].args
    assert (args.reservable_nodes, args.reservation_threshold, args.heartbeat_ms) == (0.2, 3.0, 500)
    assert (args.node_threshold, args.rack_threshold) == (0.5, 0.7)
    assert (args.node_delay_ms, args.rack_delay_ms) == ((100, 200) if continuous else (-1, -1))


@pytest.mark.parametrize(
    ("at_root", "becomes"), [pytest.param("", "differs", id="open"), pytest.param(" ", "maps", id="closed")]
)
def test_access_lists_become_annotations_with_the_open_root_of_yarn(at_root: str, becomes: str) -> None:
    root = f"<aclSubmitApps>{at_root}</aclSubmitApps>" if at_root else ""
    queue = "<queue name='a'><aclSubmitApps>ada,bob etl</aclSubmitApps></queue>"
    made = fairimport.imported(sources(f"<allocations><queue name='root'>{root}{queue}</queue></allocations>"),
                               ImportOptions())  # fmt: skip
    lists = {one["metadata"]["name"]: one["metadata"]["annotations"].get(SUBMIT) for one in made.queues}
    assert lists == {"root": at_root or "*", "a": "ada,bob etl"}
    assert {line.what: line.becomes for line in made.lines}["root.a: aclSubmitApps"] == becomes


def test_lines_that_do_not_mean_what_they_say_are_refused() -> None:
    xml = "<allocations>\n<queue name='a'><weight>-1</weight>\n<minResources>5%</minResources></queue></allocations>"
    with pytest.raises(InvalidInput) as caught:
        fairimport.imported(sources(xml), ImportOptions())
    assert [problem.where for problem in caught.value.problems] == ["line 2: root.a", "line 3: root.a"]
    assert {line.becomes for line in fairimport.checked(sources(xml), ImportOptions())} == {"refused"}


def test_resource_types_need_a_name_in_kubernetes() -> None:
    with pytest.raises(InvalidInput, match="--resource fpga=<name>"):
        fairimport.imported(sources(**{"yarn_resource-types": "fpga"}), ImportOptions())


def test_files_are_told_apart_by_their_roots(tmp_path: Path) -> None:
    fair, site, other = tmp_path / "fair.xml", tmp_path / "yarn-site.xml", tmp_path / "c.xml"
    fair.write_text(XML)
    site.write_text("<configuration><property><name>a</name><value>b</value></property></configuration>")
    other.write_text(
        "<configuration><property><name>yarn.scheduler.capacity.root.queues</name><value>a</value></property></configuration>"
    )
    found = importing.sorted_sources([site, fair])
    assert (found.kind, found.settings.get("a")) == (importing.FAIR, "b")
    assert importing.sorted_sources([other, site]).kind == importing.CAPACITY
    with pytest.raises(InvalidInput, match="no file declares queues"):
        importing.sorted_sources([site])
    with pytest.raises(InvalidInput, match="import them apart"):
        importing.sorted_sources([fair, other])
