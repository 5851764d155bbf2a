"""Objects of the table's requests, and the definition that serves widgets."""

from __future__ import annotations

from typing import Any

from tests.server.rest.steps import get, post

CORE = "/api/v1/namespaces/{ns}"
MAPS, PODS, SECRETS = f"{CORE}/configmaps", f"{CORE}/pods", f"{CORE}/secrets"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def pod(name: str = "p", *, metadata: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, **(metadata or {})},
        "spec": {"containers": [{"name": "main", "image": "busybox"}], **spec},
    }


def crd(plural: str = "widgets", kind: str = "Widget", **version: Any) -> dict[str, Any]:
    group = "{x}.example.com"
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": kind, "shortNames": ["wd"]},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "schema": {
                        "openAPIV3Schema": {
                            "type": "object",
                            "properties": {
                                "spec": {
                                    "type": "object",
                                    "required": ["size"],
                                    "properties": {
                                        "size": {"type": "integer", "minimum": 1, "maximum": 10},
                                        "colour": {"type": "string", "enum": ["red", "blue"], "default": "red"},
                                        "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 2},
                                    },
                                },
                                "status": {"type": "object", "properties": {"ready": {"type": "boolean"}}},
                            },
                        }
                    },
                    **version,
                }
            ],
        },
    }


WIDGETS = "/apis/{x}.example.com/v1/namespaces/{ns}/widgets"


def widget(name: str = "w", spec: Any = None, **more: Any) -> dict[str, Any]:
    body = {"apiVersion": "{x}.example.com/v1", "kind": "Widget", "metadata": {"name": name}}
    return {**body, "spec": {"size": 1} if spec is None else spec, **more}


SERVE_WIDGETS = [
    post(CRDS, crd(), quiet=True),
    get(WIDGETS, quiet=True, until=200),
]
