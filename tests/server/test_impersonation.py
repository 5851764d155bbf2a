"""``kubectl --as``: who may act as whom."""

from __future__ import annotations

from typing import Any

import aiohttp
import pytest

from strato.api.wire import Handler, Request, Response, User
from strato.errors import ApiError, BadRequest, Forbidden
from strato.http import listen
from strato.server import bootstrap, http
from strato.server.auth.authorizer import RbacAuthorizer
from strato.server.auth.impersonation import impersonated
from strato.server.auth.policy import RbacPolicy

KNOWN = "system:authenticated"
CASES: list[Any] = [
    pytest.param([("user", "bob")], User("bob", (KNOWN,)), id="a user is known, and in no other group"),
    pytest.param(
        [("user", "bob"), ("group", "dev"), ("group", "ops")], User("bob", ("dev", "ops", KNOWN)), id="groups as asked"
    ),
    pytest.param([("user", "bob"), ("uid", "7")], User("bob", (KNOWN,), "7"), id="a uid as asked"),
    pytest.param(
        [("user", "system:serviceaccount:ns:sa")],
        User("system:serviceaccount:ns:sa", ("system:serviceaccounts", "system:serviceaccounts:ns", KNOWN)),
        id="a service account is in the groups it always is in",
    ),
    pytest.param(
        [("user", "system:anonymous")],
        User("system:anonymous", ("system:unauthenticated",)),
        id="the anonymous are not authenticated",
    ),
]
REFUSED: list[Any] = [
    pytest.param(
        [("user", "bob")],
        Forbidden,
        'users "bob" is forbidden: User "strato:view" cannot impersonate resource "users" in API group "" at the '
        "cluster scope",
        id="a viewer acts as nobody else",
    ),
    pytest.param(
        [("user", "system:serviceaccount:ns:sa")],
        Forbidden,
        'serviceaccounts "sa" is forbidden: User "strato:view" cannot impersonate resource "serviceaccounts" in API '
        'group "" in the namespace "ns"',
        id="nor as a service account",
    ),
    pytest.param([("group", "system:masters")], BadRequest, "without impersonating a user", id="a group needs a user"),
]


def received(fields: list[tuple[str, str]]) -> list[tuple[bytes, bytes]]:
    return [(b"accept", b"*/*"), *((f"impersonate-{name}".encode(), value.encode()) for name, value in fields)]


def policy() -> Any:
    return RbacAuthorizer(RbacPolicy.of(bootstrap.objects()))


@pytest.mark.parametrize(("fields", "want"), CASES)
def test_an_administrator_acts_as(fields: list[tuple[str, str]], want: User) -> None:
    assert impersonated(bootstrap.ADMIN, received(fields), policy()) == want


@pytest.mark.parametrize(("fields", "error", "words"), REFUSED)
def test_refused(fields: list[tuple[str, str]], error: type[ApiError], words: str) -> None:
    with pytest.raises(error) as refused:
        impersonated(bootstrap.VIEWER, received(fields), policy())
    assert words in str(refused.value)


async def test_a_request_goes_on_as_the_one_named_in_its_headers() -> None:
    class Core(Handler):
        async def handle(self, request: Request) -> Response:
            assert request.user is not None
            return Response(200, f"{request.user.name} {request.user.groups}".encode())

    def impersonate(user: User, headers: Any) -> User:
        return impersonated(user, headers, policy())

    app = http.create_app(Core(), lambda headers, scope: bootstrap.ADMIN, impersonate=impersonate)
    server = await listen.serve(app)
    headers = [("Impersonate-User", "bob"), ("Impersonate-Group", "a"), ("Impersonate-Group", "b")]
    async with (
        aiohttp.ClientSession(f"http://127.0.0.1:{server.port}") as session,
        session.get("/api/x", headers=headers) as answer,
    ):
        assert await answer.text() == f"bob {('a', 'b', KNOWN)}"
    await server.stop()
