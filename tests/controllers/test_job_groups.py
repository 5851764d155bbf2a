"""What a PodGroup is changed to when its job changes: what follows the job, and nothing that says the same."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from strato.api.volcano.batch import TaskSpec
from strato.api.volcano.scheduling import PodGroup
from strato.controllers.job.group import group_patch
from strato.controllers.job.pods import PodState
from strato.controllers.job.sync import PodPlan

Json = dict[str, Any]
SUB: Json = {"name": "a", "subGroupSize": 2, "matchLabelKeys": ["k"]}


def patch(present: Json, wanted: Json) -> Json | None:
    group = msgspec.convert({"metadata": {"name": "g", "namespace": "n"}, "spec": present}, PodGroup)
    found = group_patch(group, wanted)
    return None if found is None else found["spec"]


@pytest.mark.parametrize(
    ("present", "wanted", "changes"),
    [
        pytest.param({}, {}, None, id="nothing"),
        pytest.param({"minMember": 0}, {}, None, id="no minimum is zero"),
        pytest.param({}, {"minMember": 0}, None, id="zero is no minimum"),
        pytest.param({"minMember": 2}, {"minMember": 0}, {"minMember": 0}, id="down to zero"),
        pytest.param({"minMember": 2}, {"minMember": 3}, {"minMember": 3}, id="another minimum"),
        pytest.param({"priorityClassName": ""}, {}, None, id="no class is the empty one"),
        pytest.param({"priorityClassName": "a"}, {"priorityClassName": "b"}, {"priorityClassName": "b"}, id="class"),
        pytest.param({"priorityClassName": "a"}, {}, {"priorityClassName": None}, id="no class any more"),
        pytest.param({"queue": "a"}, {"queue": "b"}, None, id="the queue stays"),
        pytest.param(
            {"minResources": {"cpu": "1"}}, {"minResources": {"cpu": "1000m"}}, None, id="the same in other words"
        ),
        pytest.param(
            {"minResources": {"cpu": "1", "memory": "1Gi"}}, {"minResources": {"cpu": "2"}},
            {"minResources": {"memory": None, "cpu": "2"}}, id="a resource less",
        ),
        pytest.param(
            {"minTaskMember": {"a": 1, "b": 1}}, {"minTaskMember": {"b": 2}}, {"minTaskMember": {"a": None, "b": 2}},
            id="a task less",
        ),
        pytest.param({"minTaskMember": {"a": 1}}, {}, {"minTaskMember": {"a": None}}, id="no tasks"),
        pytest.param({"minTaskMember": {}}, {}, None, id="no tasks are none"),
        pytest.param({"subGroupPolicy": [SUB]}, {"subGroupPolicy": [dict(SUB)]}, None, id="the same parts"),
        pytest.param({"subGroupPolicy": []}, {}, None, id="no parts"),
        pytest.param(
            {"subGroupPolicy": [SUB]}, {"subGroupPolicy": [{**SUB, "subGroupSize": 3}]},
            {"subGroupPolicy": [{**SUB, "subGroupSize": 3}]}, id="larger parts",
        ),
        pytest.param(
            {"minMember": 1, "minTaskMember": {"a": 1}}, {"minMember": 2, "minTaskMember": {"a": 2}},
            {"minMember": 2, "minTaskMember": {"a": 2}}, id="two at once",
        ),
    ],
)  # fmt: skip
def test_what_of_a_group_follows_its_job(present: Json, wanted: Json, changes: Json | None) -> None:
    assert patch(present, wanted) == changes


def test_a_plan_is_empty_when_it_neither_makes_nor_deletes() -> None:
    assert PodPlan().is_empty
    assert not PodPlan(create=[(TaskSpec(name="t"), [0])]).is_empty
    assert not PodPlan(delete=[PodState("p", "t", 0)]).is_empty
