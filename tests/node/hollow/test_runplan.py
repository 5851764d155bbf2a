"""What a pod does on a hollow node."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest

from strato.api.core import Container
from strato.api.core.container import ExecAction, Lifecycle, LifecycleHandler, SleepAction
from strato.node.hollow.distributions import Draws
from strato.node.hollow.runplan import (
    EXIT_CODE,
    FAILURE_PROBABILITY,
    RUN_SECONDS,
    START_SECONDS,
    STOP_SECONDS,
    has_run_annotations,
    plan_run,
    problems,
    start_seconds,
    stop_seconds,
)

KINDS = "constant, uniform, exponential, normal, lognormal, weibull, empirical"


class Fixed(random.Random):
    """A generator that always draws the same."""

    def __init__(self, value: float) -> None:
        super().__init__()
        self._value = value

    def random(self) -> float:
        return self._value


PLANS: list[tuple[dict[str, str] | None, str, float, float, int]] = [
    (None, "Never", 0.5, 0.0, 0),
    (None, "OnFailure", 0.5, 0.0, 0),
    (None, "Always", 0.5, math.inf, 0),
    ({"other": "1"}, "Never", 0.5, 0.0, 0),
    ({RUN_SECONDS: "0"}, "Always", 0.5, 0.0, 0),
    ({RUN_SECONDS: "-1"}, "Always", 0.5, math.inf, 0),
    ({EXIT_CODE: "3"}, "Never", 0.5, 0.0, 3),
    ({EXIT_CODE: "0"}, "Never", 0.5, 0.0, 0),
    ({EXIT_CODE: "255"}, "Never", 0.5, 0.0, 255),
    ({EXIT_CODE: "256"}, "Never", 0.5, 0.0, 0),
    ({FAILURE_PROBABILITY: "0.5"}, "Never", 0.49, 0.0, 1),
    ({FAILURE_PROBABILITY: "0.5"}, "Never", 0.5, 0.0, 0),
    ({FAILURE_PROBABILITY: "0"}, "Never", 0.0, 0.0, 0),
    ({FAILURE_PROBABILITY: "1"}, "Never", 0.99, 0.0, 1),
    ({FAILURE_PROBABILITY: "1.1"}, "Never", 0.0, 0.0, 0),
    ({FAILURE_PROBABILITY: "0.5", EXIT_CODE: "7"}, "Never", 0.0, 0.0, 7),
    ({FAILURE_PROBABILITY: "0.5", EXIT_CODE: "7"}, "Never", 0.9, 0.0, 0),
    ({FAILURE_PROBABILITY: "0.5", EXIT_CODE: "0"}, "Never", 0.0, 0.0, 1),
]


@pytest.mark.parametrize(("notes", "policy", "drawn", "seconds", "code"), PLANS)
def test_plan_run(notes: dict[str, str] | None, policy: str, drawn: float, seconds: float, code: int) -> None:
    assert plan_run(notes, ["./work"], policy, Fixed(drawn)) == (seconds, code)


@pytest.mark.parametrize("policy", ["Always", "OnFailure", "Never"])
def test_a_container_without_a_command_is_a_service(policy: str) -> None:
    assert plan_run(None, [], policy, Fixed(0.5)) == (math.inf, 0)
    assert plan_run({RUN_SECONDS: "3"}, [], policy, Fixed(0.5)) == (3.0, 0)


def test_annotations_and_the_command_line_each_say_their_part() -> None:
    argv = ["sh", "-c", "sleep 10 && exit 3"]
    assert plan_run({RUN_SECONDS: "5"}, argv, "Never", Fixed(0.5)) == (5.0, 3)
    assert plan_run({EXIT_CODE: "0"}, argv, "Never", Fixed(0.5)) == (10.0, 0)
    assert plan_run({FAILURE_PROBABILITY: "0.4"}, argv, "Never", Fixed(0.5)) == (10.0, 0)


def test_run_times_come_from_distributions() -> None:
    notes = {RUN_SECONDS: "uniform low=10 high=30"}
    assert plan_run(notes, [], "Never", Fixed(0.25)).seconds == 15
    drawn = [plan_run(notes, [], "Never", Draws(uid, 0, 0)).seconds for uid in ("a", "b", "a")]
    assert drawn[0] == drawn[2] != drawn[1], "what is drawn follows from the uid"
    assert start_seconds({START_SECONDS: "2"}, "u") == 2
    assert start_seconds({START_SECONDS: "x"}, "u") == start_seconds({}, "u") == start_seconds(None, "u") == 0


def test_either_annotation_is_one_of_ours() -> None:
    for name in (RUN_SECONDS, EXIT_CODE, FAILURE_PROBABILITY, START_SECONDS, STOP_SECONDS):
        assert has_run_annotations({name: "1", "other": ""})
    assert not has_run_annotations({"other": "1"})
    assert not has_run_annotations({})
    assert not has_run_annotations(None)


def test_what_cannot_be_read_is_named() -> None:
    assert problems({RUN_SECONDS: "-1", EXIT_CODE: "256", FAILURE_PROBABILITY: "x"}) == [
        f"annotation {RUN_SECONDS} is ignored: '-1' is no number of seconds, 0 or more, and no distribution ({KINDS})",
        f"annotation {EXIT_CODE}: '256' is ignored, want an exit code from 0 to 255",
        f"annotation {FAILURE_PROBABILITY}: 'x' is ignored, want a probability from 0 to 1",
    ]
    assert problems({STOP_SECONDS: "x"}) == [
        f"annotation {STOP_SECONDS} is ignored: 'x' is no number of seconds, 0 or more, and no distribution ({KINDS})"
    ]
    assert problems({RUN_SECONDS: "0", EXIT_CODE: "0", FAILURE_PROBABILITY: "0"}) == []
    assert problems({RUN_SECONDS: "inf", EXIT_CODE: "255", FAILURE_PROBABILITY: "1"}) == []
    assert problems(None) == problems({}) == problems({"other": "x"}) == []


HOOK = {"sleep": SleepAction(seconds=4)}
STOPS: list[tuple[dict[str, str], list[str], dict[str, Any], float]] = [
    ({}, [], {}, 0.0),
    ({}, ["nginx"], {}, 0.0),
    ({}, ["./work"], {}, 0.0),
    ({}, ["sleep", "60"], {}, math.inf),
    ({}, ["sh", "-c", "trap 'exit 0' TERM; sleep 60"], {}, 0.0),
    ({RUN_SECONDS: "60"}, ["sleep", "60"], {}, 0.0),
    ({STOP_SECONDS: "7"}, ["nginx"], {}, 7.0),
    ({STOP_SECONDS: "7", RUN_SECONDS: "1"}, ["nginx"], HOOK, 11.0),
    ({STOP_SECONDS: "soon"}, ["sleep", "60"], {}, math.inf),
    ({}, ["nginx"], HOOK, 4.0),
    ({}, ["nginx"], {"exec": ExecAction(command=("sh", "-c", "sleep 3"))}, 3.0),
    ({}, ["nginx"], {"exec": ExecAction(command=("./drain",))}, 0.0),
]


@pytest.mark.parametrize(("notes", "argv", "hook", "seconds"), STOPS)
def test_how_long_a_container_takes_to_stop(
    notes: dict[str, str], argv: list[str], hook: dict[str, Any], seconds: float
) -> None:
    lifecycle = Lifecycle(pre_stop=LifecycleHandler(**hook)) if hook else None
    assert stop_seconds(notes, Container(name="c", command=tuple(argv), lifecycle=lifecycle), "u") == seconds
