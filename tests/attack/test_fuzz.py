"""A slice of the fuzzer."""

import asyncio

import pytest

from tests.attack.fuzz import attack


@pytest.mark.attack
def test_no_request_breaks_the_server() -> None:
    found = asyncio.run(attack(4_000, seed=20))
    assert not found.wrong
    assert found.answers[201] > 20
    assert found.answers[200] > 200
