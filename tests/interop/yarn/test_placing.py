"""YARN's placement rules at the door: whose new work goes to which Queue object, and who is turned away."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from strato.admission import AdmissionRequest, Chain, ChainOptions
from strato.admission.queueplacement import KINDS, PATH, NotPlaced, SubmittedWork
from strato.api import catalog
from strato.api.frameworks import BY_KIND
from strato.api.kinds import Kind
from strato.api.wire import User, service_account
from strato.errors import Forbidden, InvalidInput
from strato.interop.yarn import objects
from strato.interop.yarn.placing import FollowedPlacement, read
from tests.admission.reader import FakeWorld
from tests.admission.rules import job, task

Json = dict[str, Any]

ALICE = User("alice", ("system:authenticated", "research", "night"))
BOB = User("b.ob", ("system:authenticated",))

FAIR = """<allocations>
  <queue name="research"><queue name="alice"/></queue>
  <queuePlacementPolicy>
    <rule name="specified" create="false"/>
    <rule name="nestedUserQueue" create="false"><rule name="primaryGroup"/></rule>
    <rule name="user" create="false"/>
    <rule name="secondaryGroupExistingQueue"/>
    <rule name="reject"/>
  </queuePlacementPolicy>
</allocations>"""
CAPACITY = """<configuration>
  <property><name>yarn.scheduler.capacity.root.queues</name><value>default,adhoc,night</value></property>
  <property><name>yarn.scheduler.capacity.root.default.capacity</name><value>10</value></property>
  <property><name>yarn.scheduler.capacity.root.adhoc.capacity</name><value>50</value></property>
  <property><name>yarn.scheduler.capacity.root.night.capacity</name><value>40</value></property>
  <property><name>yarn.scheduler.capacity.queue-mappings</name><value>u:alice:adhoc,g:night:night</value></property>
</configuration>"""


def queue(name: str, path: str = "") -> Json:
    return {"metadata": {"name": name, "annotations": {objects.PATH: path} if path else {}}}


QUEUES = [
    queue("root"),
    queue("default"),
    queue("adhoc"),
    queue("night"),
    queue("research"),
    queue("research-alice", "root.research.alice"),
    queue("b-ob", "root.b_dot_ob"),
]


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "scheduler.xml"
    path.write_text(text)
    return path


def submission(user: User, queue: str = "", name: str = "train") -> SubmittedWork:
    groups = tuple(group for group in user.groups if not group.startswith("system:"))
    return SubmittedWork(name=name, queue=queue, user=user.name, groups=groups)


@pytest.fixture(name="fair_file")
def _fair_file(tmp_path: Path) -> Path:
    return written(tmp_path, FAIR)


@pytest.mark.parametrize(
    ("user", "asked", "goes_to"),
    [
        pytest.param(ALICE, "", "research-alice", id="below the primary group"),
        pytest.param(ALICE, "adhoc", "adhoc", id="the queue that is named"),
        pytest.param(ALICE, "nowhere", "research-alice", id="one that is named and not there is passed over"),
        pytest.param(User("carol", ("none", "night")), "", "night", id="a secondary group that has a queue"),
        pytest.param(User("dan", ("adhoc",)), "", "adhoc", id="the primary group counts among them"),
    ],
)
def test_fair_rules_place_in_queues_that_exist(fair_file: Path, user: User, asked: str, goes_to: str) -> None:
    assert read(fair_file).place(submission(user, asked), QUEUES) == goes_to


def test_fair_rules_turn_away_whom_none_places(fair_file: Path) -> None:
    with pytest.raises(NotPlaced, match="no rule finds a queue"):
        read(fair_file).place(submission(User("eve", ("strangers",))), QUEUES)
    with pytest.raises(NotPlaced, match="no groups are known"):
        read(fair_file).place(submission(BOB), QUEUES)
    with pytest.raises(NotPlaced, match=r"root\.research holds queues"):
        read(fair_file).place(submission(ALICE, "research"), QUEUES)


def test_a_fair_rule_that_creates_passes_over_a_queue_nobody_made(tmp_path: Path) -> None:
    policy = '<queuePlacementPolicy><rule name="specified"/><rule name="user" create="true"/></queuePlacementPolicy>'
    rules = read(written(tmp_path, f"<allocations>{policy}</allocations>"))
    assert rules.place(submission(BOB), QUEUES) == "b-ob"
    with pytest.raises(NotPlaced, match="exist only"):
        rules.place(submission(ALICE), QUEUES)


@pytest.mark.parametrize(
    ("user", "asked", "goes_to"),
    [
        pytest.param(ALICE, "", "adhoc", id="the first rule that matches"),
        pytest.param(User("carol", ("night",)), "", "night", id="a group"),
        pytest.param(BOB, "", "", id="no rule: where it was"),
        pytest.param(ALICE, "night", "", id="who names a queue keeps it"),
    ],
)
def test_capacity_rules_place_whom_they_name(tmp_path: Path, user: User, asked: str, goes_to: str) -> None:
    assert read(written(tmp_path, CAPACITY)).place(submission(user, asked), QUEUES) == goes_to


def test_capacity_rules_name_the_queue_that_is_missing(tmp_path: Path) -> None:
    without = [one for one in QUEUES if one["metadata"]["name"] != "adhoc"]
    with pytest.raises(NotPlaced, match=r"no Queue object of root\.adhoc"):
        read(written(tmp_path, CAPACITY)).place(submission(ALICE), without)


@pytest.mark.parametrize(
    "text",
    ["<allocations/>", "<configuration/>", "<allocations><queuePlacementPolicy/></allocations>", "no XML", ""],
)
def test_a_file_without_rules_is_refused_at_the_start(tmp_path: Path, text: str) -> None:
    with pytest.raises(InvalidInput, match=r"scheduler\.xml"):
        FollowedPlacement(written(tmp_path, text)).refresh(0.0)


def test_a_changed_file_is_taken_and_a_bad_one_is_not(tmp_path: Path) -> None:
    path = written(tmp_path, CAPACITY)
    rules = FollowedPlacement(path)
    rules.refresh(1e6)
    os.utime(path, (1, 1))
    path.write_text("<broken")
    os.utime(path, (2, 2))
    rules.refresh(1e6 + 60)
    assert rules.place(submission(ALICE), QUEUES) == "adhoc"
    path.write_text(CAPACITY.replace("u:alice:adhoc", "u:alice:night"))
    os.utime(path, (3, 3))
    rules.refresh(1e6 + 120)
    assert rules.place(submission(ALICE), QUEUES) == "night"


# -- in the chain ------------------------------------------------------------------------------------------------------


def world() -> FakeWorld:
    made = FakeWorld().add(catalog.NAMESPACE, "default")
    for one in QUEUES:
        made.add(catalog.QUEUE, one["metadata"]["name"], metadata=one["metadata"], status={"state": "Open"})
    return made


def created(kind: Kind, obj: Json, user: User, path: Path) -> Json:
    chain = Chain(ChainOptions(queue_placement=read(path)))
    request = AdmissionRequest("CREATE", kind, "default", "x", obj, None, user)
    chain.mutate(request, world())
    return obj


def test_the_queue_of_a_new_job_is_chosen_by_its_user(fair_file: Path) -> None:
    assert created(catalog.VCJOB, job(task(), minAvailable=1), ALICE, fair_file)["spec"]["queue"] == "research-alice"
    with pytest.raises(Forbidden, match="Job x of eve goes to no queue"):
        created(catalog.VCJOB, job(task(), minAvailable=1), User("eve", ("strangers",)), fair_file)


def test_every_kind_with_a_queue_is_placed(fair_file: Path) -> None:
    for kind in KINDS:
        obj: Json = {"metadata": {"name": "x", "namespace": "default"}, "spec": {}}
        request = AdmissionRequest("CREATE", kind, "default", "x", obj, None, ALICE)
        chain = Chain(ChainOptions(queue_placement=read(fair_file), enabled=frozenset([PATH]), built_in_plugins=False))
        chain.mutate(request, world())
        at: Json = obj["spec"]
        if kind in BY_KIND:
            at = at["runPolicy"]["schedulingPolicy"]
        elif kind is catalog.VCCRONJOB:
            at = at["jobTemplate"]["spec"]
        assert at["queue"] == "research-alice", kind


def test_what_parts_of_the_cluster_create_stays_where_it_is(fair_file: Path) -> None:
    part = service_account("kube-system", "job-controller")
    assert created(catalog.PODGROUP, {"metadata": {"name": "x"}, "spec": {"queue": "adhoc"}}, part, fair_file) == {
        "metadata": {"name": "x"},
        "spec": {"queue": "adhoc"},
    }


def test_behind_a_webhook_the_service_of_that_path_alone_places(fair_file: Path) -> None:
    rules = read(fair_file)
    for path, queue in ((PATH, "research-alice"), ("/jobs/mutate", "default")):
        chain = Chain(ChainOptions(queue_placement=rules, enabled=frozenset([path]), built_in_plugins=False))
        obj = job(task(), minAvailable=1, queue="default")
        chain.mutate(AdmissionRequest("CREATE", catalog.VCJOB, "default", "x", obj, None, ALICE), world())
        assert obj["spec"]["queue"] == queue, path
