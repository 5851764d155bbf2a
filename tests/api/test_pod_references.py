"""What a pod's variables may name, and what of its containers may change: as a real API server answers."""

from __future__ import annotations

from typing import Any

import pytest

from strato.api import catalog
from strato.api.validation import validate_create
from strato.api.validation.pod import validate_pod_update
from strato.api.validation.storage import validate_storage_class
from strato.errors import Cause


def pod(*containers: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "p", "namespace": "n"}, "spec": {"containers": list(containers), **spec}}


def container(name: str = "c", **more: Any) -> dict[str, Any]:
    return {"name": name, "image": "i", "terminationMessagePolicy": "File", "imagePullPolicy": "Always", **more}


def found(causes: list[Cause]) -> list[tuple[str, str]]:
    return [(cause.reason, cause.field) for cause in causes]


REFERENCES = [
    pytest.param("spec.nodeName", None, id="a field"),
    pytest.param("spec.host", None, id="its old name"),
    pytest.param("status.hostIPs", None, id="addresses"),
    pytest.param("metadata.labels['app']", None, id="one label"),
    pytest.param("a", ("FieldValueInvalid", "field label not supported: a"), id="no field"),
    pytest.param("status.phase", ("FieldValueNotSupported", "status.phase"), id="a field for nobody"),
    pytest.param("metadata.labels", ("FieldValueNotSupported", "metadata.labels"), id="all labels are for files"),
    pytest.param("spec['x']", ("FieldValueInvalid", "does not support subscript"), id="a part of no map"),
]


@pytest.mark.parametrize(("path", "want"), REFERENCES)
def test_fields_that_variables_may_name(path: str, want: tuple[str, str] | None) -> None:
    variable = {"name": "A", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": path}}}
    causes = validate_create(catalog.POD, pod(container(env=[variable]), restartPolicy="Always", dnsPolicy="Default"))
    if want is None:
        assert not causes
        return
    (cause,) = causes
    assert (cause.reason, cause.field) == (want[0], "spec.containers[0].env[0].valueFrom.fieldRef.fieldPath")
    assert want[1] in cause.message


CHANGES = [
    pytest.param([container(), container("d")], [("FieldValueForbidden", "spec.containers")], id="one more"),
    pytest.param(
        [container("-1"), container()],
        [("FieldValueInvalid", "spec.containers[0].name"), ("FieldValueForbidden", "spec.containers")],
        id="all that is wrong is said",
    ),
    pytest.param([container(image="other")], [], id="another image"),
    pytest.param([container("d")], [("FieldValueForbidden", "spec")], id="another name"),
]


@pytest.mark.parametrize(("containers", "want"), CHANGES)
def test_containers_that_change(containers: list[dict[str, Any]], want: list[tuple[str, str]]) -> None:
    more = {"restartPolicy": "Always", "dnsPolicy": "Default"}
    assert found(validate_pod_update(pod(*containers, **more), pod(container(), **more))) == want


@pytest.mark.parametrize(
    ("provisioner", "want"),
    [
        pytest.param("example.com/Disk", [], id="letters of any case"),
        pytest.param("50%", [("FieldValueInvalid", "provisioner")], id="no name"),
        pytest.param(None, [("FieldValueRequired", "provisioner")], id="none"),
    ],
)
def test_provisioners(provisioner: str | None, want: list[tuple[str, str]]) -> None:
    assert found(validate_storage_class({"metadata": {"name": "s"}, "provisioner": provisioner})) == want
