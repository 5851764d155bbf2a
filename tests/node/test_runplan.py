"""What a pod does on a hollow node."""

from __future__ import annotations

import math
import random

import pytest

from strato.node.runplan import (
    EXIT_CODE,
    FAILURE_PROBABILITY,
    RUN_SECONDS,
    has_run_annotations,
    plan_run,
    problems,
    sleep_seconds,
)


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
    assert plan_run(notes, [], policy, Fixed(drawn)) == (seconds, code)


def test_either_annotation_is_one_of_ours() -> None:
    for name in (RUN_SECONDS, EXIT_CODE, FAILURE_PROBABILITY):
        assert has_run_annotations({name: "1", "other": ""})
    assert not has_run_annotations({"other": "1"})
    assert not has_run_annotations({})
    assert not has_run_annotations(None)


def test_what_cannot_be_read_is_named() -> None:
    assert problems({RUN_SECONDS: "-1", EXIT_CODE: "256", FAILURE_PROBABILITY: "x"}) == [
        f"annotation {RUN_SECONDS}: '-1' is ignored, want a number of seconds, 0 or more",
        f"annotation {EXIT_CODE}: '256' is ignored, want an exit code from 0 to 255",
        f"annotation {FAILURE_PROBABILITY}: 'x' is ignored, want a probability from 0 to 1",
    ]
    assert problems({RUN_SECONDS: "0", EXIT_CODE: "0", FAILURE_PROBABILITY: "0"}) == []
    assert problems({RUN_SECONDS: "inf", EXIT_CODE: "255", FAILURE_PROBABILITY: "1"}) == []
    assert problems(None) == problems({}) == problems({"other": "x"}) == []


@pytest.mark.parametrize(
    ("argv", "seconds"),
    [
        (["sh", "-ec", "sleep 2"], 2.0),
        (["sh", "-lc", "sleep 2"], 2.0),
        (["sh", "-x", "sleep 2"], None),
        (["sh", "-c"], None),
        (["sh", "-c", "sleep 2", "name"], None),
        (["sh"], None),
    ],
)
def test_shells_that_only_sleep(argv: list[str], seconds: float | None) -> None:
    assert sleep_seconds(argv) == seconds
