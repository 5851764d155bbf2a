"""A slice of what schemathesis finds in our OpenAPI documents."""

import asyncio

import pytest

from tests.attack.fuzz import attack


@pytest.mark.attack
@pytest.mark.filterwarnings("ignore")  # of libraries that schemathesis brings
def test_no_request_of_our_own_documents_breaks_the_server() -> None:
    from tests.attack import openapi_fuzz  # a second to import

    found = asyncio.run(attack(240, 20, openapi_fuzz.run))
    assert not found.wrong
    assert found.sent >= 200
