"""Each rule refuses in the chain, in the definitions as we evaluate them, and as a real API server does."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from strato.admission import Chain, ChainOptions, Denied
from strato.api import catalog, crds
from strato.api.crds.rules import without_rules
from strato.api.kinds import Kind
from strato.server.schema import rules as cel_rules
from strato.server.schema.structural import StructuralSchema
from tests.admission.reader import FakeWorld, admit
from tests.admission.rules import FINE, VIOLATIONS, Json, Violation
from tests.e2e.worlds import KubeWorld
from tests.server.rest.servers import Remote

SCHEMAS = {kind: StructuralSchema(crds.schema(kind)) for kind in catalog.VOLCANO}


def reader() -> FakeWorld:
    return FakeWorld().queue("default").queue("root").queue("other")


def typed(kind: Kind, body: Json) -> Json:
    return {"apiVersion": kind.api_version, "kind": kind.name, **copy.deepcopy(body)}


def by_chain(kind: Kind, body: Json, old: Json | None) -> str:
    try:
        admit(
            kind,
            copy.deepcopy(body),
            reader(),
            old=copy.deepcopy(old),
            operation="CREATE" if old is None else "UPDATE",
            name=body["metadata"]["name"],
        )
    except Denied as denial:
        return denial.message
    return ""


def by_definition(kind: Kind, body: Json, old: Json | None) -> str:
    schema = SCHEMAS[kind]
    new, before = typed(kind, body), None if old is None else typed(kind, old)
    for obj in (new, before):
        if obj is not None:
            schema.prune(obj)
            schema.default(obj)
    return "\n".join(f"{cause.field}: {cause.message}" for cause in schema.validate(new, before))


@pytest.mark.parametrize("row", [row for row in VIOLATIONS if row.chain_text != "-"], ids=lambda row: row.name)
def test_the_chain_refuses(row: Violation) -> None:
    assert (row.chain_text or row.text) in by_chain(row.kind, row.body, row.old)


@pytest.mark.parametrize("row", VIOLATIONS, ids=lambda row: row.name)
def test_the_definition_refuses(row: Violation) -> None:
    assert row.text in by_definition(row.kind, row.body, row.old)


@pytest.mark.parametrize(("name", "kind", "body", "old"), FINE, ids=[row[0] for row in FINE])
def test_what_is_in_order_passes(name: str, kind: Kind, body: Json, old: Json | None) -> None:
    assert (by_chain(kind, body, old), by_definition(kind, body, old)) == ("", "")


@pytest.mark.parametrize("kind", catalog.VOLCANO, ids=lambda kind: kind.name)
def test_every_rule_can_be_evaluated_here(kind: Kind) -> None:
    assert cel_rules.unsupported(crds.schema(kind)) == []


def test_kinds_that_admission_covers_cost_no_evaluation() -> None:
    """A job takes ten times as long to check when its rules are evaluated; the chain has said it all, faster."""
    assert Chain().covers == {catalog.VCJOB, catalog.QUEUE, catalog.JOBFLOW, catalog.VCCRONJOB}
    assert Chain(ChainOptions(enabled=frozenset({"/queues/validate"}))).covers == {catalog.QUEUE}
    bare = without_rules(crds.schema(catalog.VCJOB), crds.rule_texts(catalog.VCJOB))
    assert cel_rules.compiled(bare) is None


class ApiServer:
    """A real API server with our definitions and nothing else of ours: no webhook, no controllers."""

    def __init__(self, reader: KubeWorld) -> None:
        config = json.loads(reader.kubeconfig.read_text())
        port = urlsplit(config["clusters"][0]["cluster"]["server"]).port
        assert port is not None
        self._remote = Remote(port, config["users"][0]["user"]["token"])

    async def answer(self, kind: Kind, body: Json, old: Json | None) -> str:
        """Return why an object is refused; empty when it is not."""
        place = f"/apis/{kind.api_version}/{'namespaces/default/' if kind.namespaced else ''}{kind.plural}"
        sent = typed(kind, body)
        if old is None:
            return await self._ask("POST", place, sent)
        name = f"{place}/{body['metadata']['name']}"
        refused = await self._ask("POST", place, typed(kind, old), dry_run=False)
        assert refused == ""
        stored = json.loads((await self._remote.ask("GET", name, "", {}, b"", watch=False)).body)
        sent["metadata"]["resourceVersion"] = stored["metadata"]["resourceVersion"]
        answer = await self._ask("PUT", name, sent)
        await self._remote.ask("DELETE", name, "", {}, b"", watch=False)
        return answer

    async def _ask(self, method: str, path: str, body: Json, *, dry_run: bool = True) -> str:
        query, headers = "dryRun=All" if dry_run else "", {"content-type": "application/json"}
        answer = await self._remote.ask(method, path, query, headers, json.dumps(body).encode(), watch=False)
        return "" if answer.code < 300 else str(json.loads(answer.body)["message"])


@pytest.fixture(scope="module")
def kube(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    server = KubeWorld(tmp_path_factory.mktemp("rules"))
    if not (server.binaries / "kube-apiserver").exists():
        pytest.skip(f"no control plane at {server.binaries}; build it with tests/e2e/kube/controlplane/build.sh")
    try:
        server.start_api_server()
        server.strato("install", "--only", "crds")
        server.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=300s")
        yield ApiServer(server)
    finally:
        server.stop()


@pytest.mark.kube
@pytest.mark.timeout(600)
def test_a_real_api_server_refuses_the_same_without_a_webhook(kube: ApiServer) -> None:
    async def ask() -> dict[str, str]:
        return {row.name: await kube.answer(row.kind, row.body, row.old) for row in VIOLATIONS}

    answers = asyncio.run(ask())
    assert {row.name: answers[row.name] for row in VIOLATIONS if row.text not in answers[row.name]} == {}


@pytest.mark.kube
@pytest.mark.timeout(600)
def test_a_real_api_server_takes_what_is_in_order(kube: ApiServer) -> None:
    async def ask() -> dict[str, str]:
        return {name: await kube.answer(kind, body, old) for name, kind, body, old in FINE}

    assert {name: answer for name, answer in asyncio.run(ask()).items() if answer} == {}
