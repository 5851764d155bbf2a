"""A slice of what schemathesis finds in our OpenAPI documents."""

import asyncio
from datetime import UTC, datetime
from functools import partial

import pytest

from tests.attack.fuzz import attack


@pytest.mark.attack
@pytest.mark.filterwarnings("ignore")  # of libraries that schemathesis brings
def test_no_request_of_our_own_documents_breaks_the_server() -> None:
    from tests.attack import openapi_fuzz  # a second to import

    day = datetime.now(UTC).date().toordinal()  # another part of the operations every day, all in some weeks
    start = day * 0.05 % 1.0
    found = asyncio.run(attack(240, day, partial(openapi_fuzz.run, start=start)))
    assert not found.wrong, f"seed {day}, start {start}"
    assert found.sent >= 200
    assert len(found.operations) >= 200, found.reached()
