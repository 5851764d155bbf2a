"""Tokens of service accounts: issued, recognised, and worth nothing once they should be."""

from __future__ import annotations

import base64
import json
import random
import stat
from pathlib import Path
from typing import Any

import pytest

from strato.api.wire import User
from strato.clock import VirtualClock
from strato.errors import Unauthorized, UsageError
from strato.server import bootstrap
from strato.server.auth.accounts import AccountTokens
from strato.server.auth.identity import Authenticator
from strato.server.auth.tokens import Tokens
from strato.server.embedded import in_memory_server, open_server
from tests.server.asking import Client

ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"


class World:
    """A server that issues tokens, with an account."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.authenticator = Authenticator(Tokens(), accounts=AccountTokens(None, self.clock))
        self.client = Client(in_memory_server(self.clock, random.Random(1), tokens=self.authenticator))

    async def token(self, **spec: Any) -> str:
        return str((await self.client.ask("POST", f"{ACCOUNTS}/robot/token", {"spec": spec}))["status"]["token"])

    async def review(self, token: str, **spec: Any) -> dict[str, Any]:
        return dict((await self.client.ask("POST", REVIEWS, {"spec": {"token": token, **spec}}))["status"])


@pytest.fixture
async def world() -> World:
    made = World()
    await made.client.ask("POST", ACCOUNTS, {"metadata": {"name": "robot"}})
    return made


async def test_a_token_is_its_account(world: World) -> None:
    status = await world.review(await world.token())
    assert status["authenticated"] is True
    assert status["user"]["username"] == "system:serviceaccount:default:robot"
    assert status["user"]["groups"] == [
        "system:serviceaccounts",
        "system:serviceaccounts:default",
        "system:authenticated",
    ]


async def test_a_token_lets_its_account_in(world: World) -> None:
    header = {"authorization": f"Bearer {await world.token()}"}
    assert world.authenticator(header, {}).name == "system:serviceaccount:default:robot"


async def test_a_token_carries_the_claims_of_kubernetes(world: World) -> None:
    payload = (await world.token(audiences=["me"], expirationSeconds=700)).split(".")[1]
    claims = json.loads(base64.urlsafe_b64decode(payload + "=="))
    assert claims["aud"] == ["me"]
    assert claims["exp"] - claims["iat"] == 700
    assert claims["sub"] == "system:serviceaccount:default:robot"
    assert claims["kubernetes.io"]["serviceaccount"]["name"] == "robot"


async def test_a_token_ends(world: World) -> None:
    token = await world.token(expirationSeconds=600)
    world.clock.advance(599)
    assert "authenticated" in await world.review(token)
    world.clock.advance(2)
    assert await world.review(token) == {"user": {}, "error": "invalid bearer token"}
    with pytest.raises(Unauthorized):
        world.authenticator({"authorization": f"Bearer {token}"}, {})


async def test_a_token_goes_with_its_account(world: World) -> None:
    token = await world.token()
    await world.client.ask("DELETE", f"{ACCOUNTS}/robot")
    assert "error" in await world.review(token)
    await world.client.ask("POST", ACCOUNTS, {"metadata": {"name": "robot"}})
    assert "error" in await world.review(token), "the new account is another one"


async def test_a_token_goes_with_the_pod_it_is_bound_to(world: World) -> None:
    pods = "/api/v1/namespaces/default/pods"
    pod = {
        "metadata": {"name": "p"},
        "spec": {"serviceAccountName": "robot", "containers": [{"name": "c", "image": "i"}]},
    }
    uid = (await world.client.ask("POST", pods, pod))["metadata"]["uid"]
    token = await world.token(boundObjectRef={"kind": "Pod", "apiVersion": "v1", "name": "p", "uid": uid})
    assert "authenticated" in await world.review(token)
    await world.client.ask("DELETE", f"{pods}/p")
    assert "error" in await world.review(token)


async def test_a_token_is_for_its_audiences_only(world: World) -> None:
    token = await world.token(audiences=["me", "you"])
    assert "error" in await world.review(token)
    assert (await world.review(token, audiences=["you", "they"]))["authenticated"] is True


def changed(token: str, part: int, text: str) -> str:
    parts = token.split(".")
    parts[part] = text
    return ".".join(parts)


@pytest.mark.parametrize(
    "forge",
    [
        pytest.param(lambda token: token[:-4] + "AAAA", id="another signature"),
        pytest.param(lambda token: changed(token, 1, token.split(".")[1][::-1]), id="another payload"),
        pytest.param(
            lambda token: changed(token, 0, base64.urlsafe_b64encode(b'{"alg":"none"}').decode()), id="no algorithm"
        ),
        pytest.param(lambda token: changed(token, 2, ""), id="no signature"),
        pytest.param(lambda token: changed(token, 2, "?"), id="a signature that is no base64"),
        pytest.param(lambda token: token + ".x", id="one part too many"),
        pytest.param(lambda token: "a.b.c", id="nonsense"),
    ],
)
async def test_a_forged_token_is_nobodys(world: World, forge: Any) -> None:
    assert "error" in await world.review(forge(await world.token()))


async def test_a_token_of_another_cluster_is_nobodys(world: World) -> None:
    other = World()
    await other.client.ask("POST", ACCOUNTS, {"metadata": {"name": "robot"}})
    assert "error" in await world.review(await other.token())


def test_the_key_is_private_and_reused(tmp_path: Path) -> None:
    path, clock = tmp_path / "pki" / "sa.key", VirtualClock()
    account = {"metadata": {"name": "a", "namespace": "n", "uid": "u"}}
    first, second = AccountTokens(path, clock), AccountTokens(path, clock)
    second.use_objects(lambda _kind, _namespace, _name: account)
    token = first.issue(account, audiences=["me"], seconds=60, bound=(), token_id="t")
    assert second.find(token, ["me"]) is not None
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_broken_key_says_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "sa.key"
    path.write_text("no key")
    with pytest.raises(UsageError, match="remove it"):
        AccountTokens(path, VirtualClock())


async def test_without_a_key_there_are_no_tokens() -> None:
    client = Client(in_memory_server(VirtualClock(), random.Random(1)))
    await client.ask("POST", ACCOUNTS, {"metadata": {"name": "robot"}})
    await client.ask("POST", f"{ACCOUNTS}/robot/token", {}, code=404)


async def test_rules_reviews_tell_what_one_may_do() -> None:
    server, _ = open_server(VirtualClock(), random.Random(1), None, rbac=True, bootstrap=bootstrap.objects())
    client = Client(server, User("strato:view", ("system:authenticated",)))
    path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
    status = (await client.ask("POST", path, {"spec": {"namespace": "default"}}))["status"]
    assert any(
        "pods" in rule["resources"] and rule["verbs"] == ["get", "list", "watch"] for rule in status["resourceRules"]
    )
    assert any("/healthz" in rule["nonResourceURLs"] for rule in status["nonResourceRules"])
    may = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    for verb, allowed in (("list", True), ("delete", False)):
        attributes = {"verb": verb, "resource": "pods", "namespace": "default"}
        status = (await client.ask("POST", may, {"spec": {"resourceAttributes": attributes}}))["status"]
        assert status["allowed"] is allowed


async def test_a_review_says_for_which_audiences_a_token_is(world: World) -> None:
    token = await world.token(audiences=["me", "you"])
    assert (await world.review(token, audiences=["you", "they"]))["audiences"] == ["you"]
    assert (await world.review(await world.token()))["audiences"] == ["https://kubernetes.default.svc.cluster.local"]


async def test_a_token_of_a_person_is_for_this_api_alone() -> None:
    tokens = Tokens()
    tokens.ensure([bootstrap.ADMIN])
    client = Client(in_memory_server(VirtualClock(), random.Random(1), tokens=Authenticator(tokens)))
    spec = {"token": tokens.token(bootstrap.ADMIN.name)}
    assert (await client.ask("POST", REVIEWS, {"spec": spec}))["status"]["authenticated"] is True
    assert "error" in (await client.ask("POST", REVIEWS, {"spec": {**spec, "audiences": ["vault"]}}))["status"]


async def test_a_token_says_what_it_is_bound_to(world: World) -> None:
    pods, nodes = "/api/v1/namespaces/default/pods", "/api/v1/nodes"
    node = (await world.client.ask("POST", nodes, {"metadata": {"name": "n"}}))["metadata"]["uid"]
    spec = {"serviceAccountName": "robot", "nodeName": "n", "containers": [{"name": "c", "image": "i"}]}
    pod = (await world.client.ask("POST", pods, {"metadata": {"name": "p"}, "spec": spec}))["metadata"]["uid"]
    token = await world.token(boundObjectRef={"kind": "Pod", "apiVersion": "v1", "name": "p"})
    extra = (await world.review(token))["user"]["extra"]
    assert extra.pop("authentication.kubernetes.io/credential-id")[0].startswith("JTI=")
    assert extra == {
        "authentication.kubernetes.io/node-name": ["n"],
        "authentication.kubernetes.io/node-uid": [node],
        "authentication.kubernetes.io/pod-name": ["p"],
        "authentication.kubernetes.io/pod-uid": [pod],
    }
    await world.client.ask("DELETE", f"{nodes}/n")
    assert "authenticated" in await world.review(token), "the pod is what it is bound to"


async def test_a_token_goes_with_its_secret_and_with_an_object_that_should_be_gone(world: World) -> None:
    secrets = "/api/v1/namespaces/default/secrets"
    await world.client.ask("POST", secrets, {"metadata": {"name": "s", "finalizers": ["example.org/wait"]}})
    token = await world.token(boundObjectRef={"kind": "Secret", "apiVersion": "v1", "name": "s"})
    await world.client.ask("DELETE", f"{secrets}/s")
    assert "authenticated" in await world.review(token)
    world.clock.advance(61)
    assert "error" in await world.review(token)


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        ({"spec": {"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "other"}}}, 400),
        ({"metadata": {"name": "someone"}}, 422),
        ({"metadata": {"namespace": "elsewhere"}}, 422),
        ({"metadata": {"uid": "another"}}, 409),
    ],
)
async def test_a_token_is_of_the_account_it_was_asked_of(world: World, request_: Any, code: int) -> None:
    pod = {"metadata": {"name": "other"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    await world.client.ask("POST", "/api/v1/namespaces/default/pods", pod)
    await world.client.ask("POST", f"{ACCOUNTS}/robot/token", request_, code=code)


async def test_verified_tokens_are_bounded(world: World) -> None:
    accounts = AccountTokens(None, world.clock)
    account = {"metadata": {"name": "a", "namespace": "n", "uid": "u"}}
    accounts.use_objects(lambda _kind, _namespace, _name: account)
    for number in range(1200):
        token = accounts.issue(account, audiences=["x" * 10_000], seconds=60, bound=(), token_id=str(number))
        assert accounts.find(token, ["x" * 10_000]) is not None
    assert accounts._verified.bytes <= 16 << 20
    assert len(accounts._verified) < 1200
