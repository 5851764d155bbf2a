"""Which queue an application goes to, and which queues are created for it."""

from __future__ import annotations

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strato.errors import InvalidInput, UsageError
from strato.interop.yarn.capacity import mappingrules
from strato.interop.yarn.capacity.autocreation import CreationRefused, QueueCatalogue
from strato.interop.yarn.capacity.capacities import compute
from strato.interop.yarn.capacity.placement import ApplicationSubmission, PlacementRejected, place
from strato.interop.yarn.capacity.settings import SCHEDULER
from strato.interop.yarn.hadoopxml import HadoopSettings

TREE = {
    "root.queues": "default,a,users", "root.default.capacity": "10", "root.a.capacity": "50",
    "root.users.capacity": "40", "root.a.queues": "a1,a2,same", "root.a.a1.capacity": "50", "root.a.a2.capacity": "30",
    "root.a.same.capacity": "20", "root.users.queues": "same,eve_dot_b", "root.users.same.capacity": "50",
    "root.users.eve_dot_b.capacity": "50",
}  # fmt: skip


def catalogue(settings: dict[str, str]) -> QueueCatalogue:
    named = {key if key.startswith("yarn.") else SCHEDULER + key: value for key, value in settings.items()}
    return QueueCatalogue.of(HadoopSettings.from_mapping(named))


def placed(mappings: str, queue: str = "default", user: str = "ada", **more: str) -> str | None:
    found = catalogue({**TREE, "queue-mappings": mappings, **more})
    rules = mappingrules.read(found.settings)
    groups = (f"{user}s", "others", "a2")
    return place(ApplicationSubmission(queue=queue, user=user, groups=groups, name="etl"), rules, found)


@pytest.mark.parametrize(
    ("mappings", "want"),
    [
        pytest.param("u:ada:a1", "root.a.a1", id="a user"),
        pytest.param("u:bob:a1,g:adas:a2", "root.a.a2", id="a group"),
        pytest.param("u:ada:root.a.a1,u:%user:default", "root.a.a1", id="the first that matches"),
        pytest.param("u:%user:%secondary_group", "root.a.a2", id="the first secondary group with a queue"),
        pytest.param("u:%user:%user", "root.default", id="no such queue"),
        pytest.param("u:ada:a", "root.default", id="a parent"),
        pytest.param("u:ada:same", "root.default", id="a name that two queues have"),
        pytest.param("u:bob:a1", None, id="no rule matches"),
        pytest.param("", None, id="no rules"),
    ],
)
def test_short_rules(mappings: str, want: str | None) -> None:
    assert placed(mappings) == want


def test_dots_in_names_are_written_out() -> None:
    assert placed("u:%user:users.%user", user="eve.b") == "root.users.eve_dot_b"


def test_a_queue_that_was_named_stays_unless_rules_override() -> None:
    assert placed("u:ada:a1", queue="root.a.a2") is None
    assert placed("u:ada:a1", queue="root.a.a2", **{"queue-mappings-override.enable": "true"}) == "root.a.a1"
    assert placed("u:ada:%specified", queue="root.a.a2", **{"queue-mappings-override.enable": "true"}) == "root.a.a2"


def test_names_of_applications_place_too() -> None:
    rules = {"yarn.scheduler.queue-placement-rules.app-name": "etl:a1,%application:a2"}
    assert placed("", **rules) == "root.a.a1"


def test_an_application_is_rejected_when_not_even_the_default_can_be_used() -> None:
    found = catalogue({"root.queues": "a", "root.a.capacity": "100", "queue-mappings": "u:%user:nope"})
    with pytest.raises(PlacementRejected, match="neither can the default"):
        place(ApplicationSubmission(user="ada"), mappingrules.read(found.settings), found)


def json_rules(*rules: dict[str, object]) -> dict[str, str]:
    return {"mapping-rule-format": "json", "mapping-rule-json": json.dumps({"rules": list(rules)})}


@pytest.mark.parametrize(
    ("rule", "want"),
    [
        pytest.param({"policy": "primaryGroup", "fallbackResult": "placeDefault"}, "root.default", id="no such queue"),
        pytest.param({"policy": "primaryGroup", "fallbackResult": "skip"}, None, id="skipped"),
        pytest.param({"policy": "custom", "customPlacement": "root.a.a1"}, "root.a.a1", id="custom"),
        pytest.param({"policy": "secondaryGroup", "parentQueue": "root.a"}, "root.a.a2", id="below a parent"),
        pytest.param({"policy": "defaultQueue"}, "root.default", id="the default"),
    ],
)
def test_json_rules(rule: dict[str, object], want: str | None) -> None:
    assert placed("", **json_rules({"type": "user", "matches": "*", **rule})) == want


def test_json_rules_reject() -> None:
    everybody = {"type": "user", "matches": "*"}
    with pytest.raises(PlacementRejected):
        placed("", **json_rules({**everybody, "policy": "reject"}))
    with pytest.raises(PlacementRejected):
        placed("", **json_rules({**everybody, "policy": "primaryGroup", "fallbackResult": "reject"}))


def test_what_is_wrong_with_rules_is_said_with_its_place() -> None:
    bad = {"type": "group", "matches": "*", "policy": "best"}
    with pytest.raises(InvalidInput) as caught:
        mappingrules.read(catalogue({**TREE, **json_rules(bad)}).settings)
    assert "rules[0]: policy 'best' is unknown" in str(caught.value)
    assert len(caught.value.problems) == 2


@given(st.text(max_size=60))
def test_any_json_is_read_or_refused_in_words(text: str) -> None:
    settings = HadoopSettings.from_mapping(
        {SCHEDULER + "mapping-rule-format": "json", SCHEDULER + "mapping-rule-json": text, "x": "y"}
    )
    with contextlib.suppress(UsageError):
        assert mappingrules.read(settings).rules is not None


# -- creation ----------------------------------------------------------------------------------------------------------

FLEXIBLE = {
    "root.queues": "default,users", "root.default.capacity": "1w", "root.users.capacity": "9w",
    "root.users.auto-queue-creation-v2.enabled": "true", "root.users.auto-queue-creation-v2.template.capacity": "2w",
}  # fmt: skip
MANAGED = {
    "root.queues": "default,users", "root.default.capacity": "20", "root.users.capacity": "80",
    "root.users.auto-create-child-queue.enabled": "true", "root.users.leaf-queue-template.capacity": "40",
}  # fmt: skip


def absolute(found: QueueCatalogue) -> dict[str, float]:
    numbers = compute(found.configuration, {"": (102400, 100)})
    return {path: round(one[""].absolute, 4) for path, one in numbers.items() if path.startswith("root.users.")}


def test_flexible_parents_share_by_weight() -> None:
    found = catalogue(FLEXIBLE)
    for user in ("alice", "bob", "carol"):
        found = found.with_created(f"root.users.{user}")
    assert absolute(found) == {f"root.users.{user}": 0.3 for user in ("alice", "bob", "carol")}
    left = found.without({"root.users.bob"})
    assert absolute(left) == {"root.users.alice": 0.45, "root.users.carol": 0.45}


def test_managed_parents_give_entitlements_while_they_last() -> None:
    found = catalogue(MANAGED)
    for user in ("alice", "bob", "carol"):
        found = found.with_created(f"root.users.{user}")
    assert absolute(found) == {"root.users.alice": 0.32, "root.users.bob": 0.32, "root.users.carol": 0.0}


def test_templates_by_wildcard_and_for_leaves_alone() -> None:
    found = catalogue(
        {
            **FLEXIBLE,
            "root.users.*.auto-queue-creation-v2.leaf-template.capacity": "5w",
            "root.users.auto-queue-creation-v2.leaf-template.capacity": "7w",
        }
    ).with_created("root.users.group.alice")
    by_path = found.configuration.by_path
    assert by_path["root.users.group"].capacities[""].parts[0].value == 2
    assert by_path["root.users.group.alice"].capacities[""].parts[0].value == 5
    assert by_path["root.users.group"].is_parent


@pytest.mark.parametrize(
    ("settings", "path", "words"),
    [
        pytest.param(FLEXIBLE, "root.users.x.y.z", "maximum-queue-depth", id="too deep"),
        pytest.param(FLEXIBLE, "root.other.x", "does not create queues", id="parents that create none"),
        pytest.param(FLEXIBLE, "root.default.x", "does not create queues", id="a leaf"),
        pytest.param(FLEXIBLE, "users", "is no path", id="no path"),
        pytest.param(MANAGED, "root.users.x.y", "creates leaves only", id="below a managed parent's leaf"),
        pytest.param(
            {**FLEXIBLE, "root.users.auto-queue-creation-v2.max-queues": "0"},
            "root.users.x",
            "max-queues",
            id="too many",
        ),
    ],
)
def test_what_is_not_created(settings: dict[str, str], path: str, words: str) -> None:
    with pytest.raises(CreationRefused, match=words):
        catalogue(settings).with_created(path)
