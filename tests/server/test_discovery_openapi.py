"""Discovery and OpenAPI documents, over the built-in kinds and one custom kind."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from strato.api import catalog
from strato.api.kinds import Kind
from strato.api.wire import Request, Response
from strato.clock import VirtualClock
from strato.errors import NotAcceptable
from strato.server.discovery import Discovery, sort_versions
from strato.server.openapi import OpenApi
from strato.server.openapi.documents import version_two

SCHEMA = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"x": {"type": "string"}}}}}


class Catalogue:
    revision = 1

    def __init__(self) -> None:
        self.custom = [catalog.VCJOB]

    def kinds(self) -> Iterable[Kind]:
        return [*catalog.BUILTIN, *self.custom]

    def openapi_schema(self, kind: Kind) -> Mapping[str, Any] | None:
        return SCHEMA if kind in self.custom else None


def ask(path: str, **headers: str) -> Any:
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    response = Discovery(Catalogue(), VirtualClock()).handle(Request("GET", path, headers=names))
    return json.loads(response.body) if response is not None else None


def test_versions_are_preferred_as_kubernetes_does() -> None:
    assert sort_versions(["v1beta1", "v2", "v1", "v1alpha1", "foo", "v10"]) == [
        "v10",
        "v2",
        "v1",
        "v1beta1",
        "v1alpha1",
        "foo",
    ]


def test_core_lists_pods_with_their_subresources() -> None:
    names = {one["name"]: one for one in ask("/api/v1")["resources"]}
    assert names["pods"]["shortNames"] == ["po"]
    assert names["pods/binding"]["kind"] == "Binding"
    assert names["pods/log"]["verbs"] == ["get"]


def test_groups_list_custom_kinds() -> None:
    assert "batch.volcano.sh" in [one["name"] for one in ask("/apis")["groups"]]
    assert ask("/apis/batch.volcano.sh")["preferredVersion"]["version"] == "v1alpha1"
    assert ask("/apis/none") is None


@pytest.mark.parametrize("version", ["v2", "v2beta1"])
def test_aggregated_discovery_by_accept(version: str) -> None:
    accept = f"application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList,application/json"
    document = ask("/apis", accept=accept)
    assert (document["kind"], document["apiVersion"]) == ("APIGroupDiscoveryList", f"apidiscovery.k8s.io/{version}")
    apps = next(one for one in document["items"] if one["metadata"]["name"] == "apps")
    deployments = next(one for one in apps["versions"][0]["resources"] if one["resource"] == "deployments")
    assert {one["subresource"] for one in deployments["subresources"]} == {"scale", "status"}


def test_version_names_kubernetes() -> None:
    assert ask("/version")["gitVersion"].startswith("v1.")


def test_v3_index_leads_to_documents_that_hold_what_they_refer_to() -> None:
    service = OpenApi(Catalogue())
    index = json.loads(service.handle(Request("GET", "/openapi/v3")).body)  # type: ignore[union-attr]  # it is one
    for entry in index["paths"].values():
        path, _, tag = entry["serverRelativeURL"].partition("?hash=")
        response = service.handle(Request("GET", path, query={"hash": [tag]}))
        assert response is not None
        assert response.status == 200
        text = response.body.decode()
        schemas = json.loads(text)["components"]["schemas"]
        wanted = {part.split('"')[0] for part in text.split("#/components/schemas/")[1:]}
        assert wanted <= schemas.keys()


def test_v3_patch_of_a_custom_kind_takes_field_validation() -> None:
    body = OpenApi(Catalogue()).handle(Request("GET", "/openapi/v3/apis/batch.volcano.sh/v1alpha1"))
    assert body is not None
    document = json.loads(body.body)
    patch = document["paths"]["/apis/batch.volcano.sh/v1alpha1/namespaces/{namespace}/jobs/{name}"]["patch"]
    assert "fieldValidation" in [one["name"] for one in patch["parameters"]]
    assert patch["x-kubernetes-group-version-kind"]["kind"] == "Job"
    assert "sh.volcano.batch.v1alpha1.Job" in document["components"]["schemas"]


def test_v3_stale_hash_is_sent_on_and_known_tag_is_not_modified() -> None:
    service = OpenApi(Catalogue())
    stale = service.handle(Request("GET", "/openapi/v3/api/v1", query={"hash": ["old"]}))
    assert stale is not None
    assert stale.status == 301
    fresh = service.handle(Request("GET", "/openapi/v3/api/v1"))
    assert fresh is not None
    again = service.handle(Request("GET", "/openapi/v3/api/v1", headers={"if-none-match": fresh.headers["ETag"]}))
    assert again is not None
    assert again.status == 304
    with pytest.raises(NotAcceptable):
        service.handle(Request("GET", "/openapi/v3/api/v1", headers={"accept": "application/x-protobuf"}))


async def test_v2_protobuf_holds_the_same_definitions_as_json() -> None:
    service = OpenApi(Catalogue())

    async def get(**headers: str) -> Response:
        answer = service.handle(Request("GET", "/openapi/v2", headers=headers))
        assert answer is not None
        return answer if isinstance(answer, Response) else await answer

    accept = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
    (plain, again), packed = await asyncio.gather(get(), get()), await get(accept=accept)
    assert again.body is plain.body  # made once, however many ask for it meanwhile
    names = set(json.loads(plain.body)["definitions"])
    fields = dict(_fields(packed.body))
    found = {dict(_fields(one))[1].decode() for number, one in _fields(fields[9]) if number == 1}
    assert found == names
    assert len(names) > 400


def test_v2_names_no_members_of_a_kind_that_takes_any() -> None:
    """Kubectl would refuse all others."""
    takes_any = {**SCHEMA, "x-kubernetes-preserve-unknown-fields": True}
    name = "sh.volcano.batch.v1alpha1.Job"
    kind = [{"group": "batch.volcano.sh", "kind": "Job", "version": "v1alpha1"}]
    definitions = version_two([(catalog.VCJOB, takes_any)])["definitions"]
    assert definitions[name] == {"type": "object", "x-kubernetes-group-version-kind": kind}
    definitions = version_two([(catalog.VCJOB, SCHEMA)])["definitions"]
    assert set(definitions[name]["properties"]) == {"apiVersion", "kind", "metadata", "spec"}


def _fields(data: bytes) -> Iterable[tuple[int, bytes]]:
    """Read the length-delimited fields of a protobuf message."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        size, at = _varint(data, at)
        assert tag & 7 == 2
        yield tag >> 3, data[at : at + size]
        at += size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at
