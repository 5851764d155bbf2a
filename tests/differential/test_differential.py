"""A slice of `make differential`; and that the requests are what they should be."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from tests.differential.comparison import embedded_answers, parted, real_answers
from tests.differential.known import reason_for
from tests.differential.requests import STEPS, cases
from tests.server.rest.record import kube_apiserver

SLICE = 100
"""Cases."""


def test_the_same_seed_makes_the_same_requests_of_every_sort() -> None:
    made = list(cases(7, SLICE))
    assert made == list(cases(7, SLICE))
    assert made != list(cases(8, SLICE))
    steps = [step for case in made for step in case.steps]
    assert len(steps) == SLICE * STEPS
    methods = Counter(step.method for step in steps)
    assert min(methods[method] for method in ("GET", "POST", "PUT", "PATCH", "DELETE")) > len(steps) // 20
    assert len({step.media for step in steps}) == 5


def test_no_generated_request_is_answered_with_a_fault_of_ours() -> None:
    made = list(cases(3, SLICE))
    for case, answers in zip(made, embedded_answers(made), strict=True):
        for step, answer in zip(case.steps, answers, strict=True):
            assert answer["code"] < 500 or step.media.endswith("+yaml"), (step, answer)


@pytest.mark.kube
@pytest.mark.timeout(600)
def test_a_real_server_answers_the_same() -> None:
    made = list(cases(1, SLICE))
    with kube_apiserver() as server:
        theirs = asyncio.run(real_answers(server, made))
    found = parted(made, embedded_answers(made), theirs)
    assert "\n".join(str(difference) for difference in found if not reason_for(difference)) == ""
