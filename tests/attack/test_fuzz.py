"""A slice of the fuzzer."""

import asyncio

import pytest

from tests.attack.fuzz import attack, finished


@pytest.mark.attack
def test_no_request_breaks_the_server() -> None:
    found = asyncio.run(attack(4_000, seed=20))
    assert not found.wrong
    assert found.answers[201] > 20
    assert found.answers[200] > 200


@pytest.mark.parametrize("cut", range(60, 82))
def test_what_is_hardly_http_has_an_end(cut: int) -> None:
    data = b"POST /api/v1/namespaces HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999"[:cut]
    length = data.partition(b"Content-Length: ")[2]
    if len(length) < 8:  # more is refused, whatever follows
        assert len(finished(data)) - len(data) > int(length or 0)
