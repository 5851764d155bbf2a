"""What the real server's answers in `test_kube_answers` do not show of volumes and of the data they come from."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from strato.api import catalog, validation
from strato.api.validation.others import CONFIG_MAX_BYTES
from strato.errors import BadRequest

BOUND = {
    "capacity": {"storage": "1Gi"},
    "accessModes": ["ReadWriteOnce"],
    "hostPath": {"path": "/data", "type": ""},
    "volumeMode": "Filesystem",
}


def texts(kind: Any, **members: Any) -> list[str]:
    obj = {"metadata": {"name": "x", **({"namespace": "d"} if kind.namespaced else {})}, **members}
    return [f"{cause.field}: {cause.message}" for cause in validation.validate_create(kind, obj)]


@pytest.mark.parametrize("character", ["x", "é", "\U0001f600"])
def test_the_size_of_a_config_map_is_counted_in_bytes(character: str) -> None:
    fits = CONFIG_MAX_BYTES // len(character.encode())
    assert texts(catalog.CONFIGMAP, data={"k": character * fits}) == []
    assert texts(catalog.CONFIGMAP, data={"k": character * fits, "l": character}) == [
        f": Too long: may not be more than {CONFIG_MAX_BYTES} bytes"
    ]


@pytest.mark.parametrize(("kind", "member"), [(catalog.CONFIGMAP, "binaryData"), (catalog.SECRET, "data")])
def test_data_that_is_no_base64_is_refused_without_being_shown(kind: Any, member: str) -> None:
    (text,) = texts(kind, **{member: {"k": "c2VjcmV0c"}})
    assert "illegal base64 data" in text
    assert "c2VjcmV0c" not in text


@pytest.mark.parametrize(
    "change",
    [
        {"hostPath": {"path": "/etc", "type": ""}},
        {"hostPath": None, "nfs": {"server": "s", "path": "/x"}},
        {"volumeMode": "Block"},
    ],
)
def test_what_a_persistent_volume_is_stays(change: dict[str, Any]) -> None:
    old = {"metadata": {"name": "x", "resourceVersion": "1"}, "spec": BOUND}
    new = copy.deepcopy(old)
    assert validation.validate_update(catalog.PERSISTENTVOLUME, new, old) == []
    new["spec"] = {**BOUND, **change}
    assert "immutable" in validation.validate_update(catalog.PERSISTENTVOLUME, new, old)[0].message


@pytest.mark.parametrize("member", ["configMap", "secret"])
@pytest.mark.parametrize("body", [[], "x", {"items": "x"}, {"items": [1]}, {"items": [{"key": "k", "path": 1}]}])
def test_volumes_of_the_wrong_type_are_bad_requests(member: str, body: Any) -> None:
    containers = [{"name": "a", "image": "i"}]
    with pytest.raises(BadRequest, match="cannot be handled as a Pod"):
        texts(catalog.POD, spec={"containers": containers, "volumes": [{"name": "v", member: body}]})
