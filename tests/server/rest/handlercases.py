"""Pods whose probes and hooks say what a kubelet could not do."""

from __future__ import annotations

from typing import Any

from tests.server.rest.steps import Case, Step, post

PODS = "/api/v1/namespaces/{ns}/pods"
GOOD = {"httpGet": {"port": "web", "path": "/x"}}
HANDLERS: list[dict[str, Any]] = [
    {},
    {"exec": {}},
    {"exec": {"command": []}},
    {"httpGet": {"path": "/"}},
    {"httpGet": {"port": 0}},
    {"httpGet": {"port": 65536}},
    {"httpGet": {"port": -1}},
    {"httpGet": {"port": ""}},
    {"httpGet": {"port": "A_b"}},
    {"httpGet": {"port": "80"}},
    {"httpGet": {"port": "name-of-16-chars"}},
    {"httpGet": {"port": 80, "scheme": "FTP"}},
    {"httpGet": {"port": 80, "httpHeaders": [{"name": "a b", "value": ""}, {"name": "", "value": "x"}]}},
    {"httpGet": {"port": 80, "httpHeaders": [{"name": "X-Fine_1.~", "value": "any"}]}},
    {"tcpSocket": {}},
    {"tcpSocket": {"port": "--"}},
    {"grpc": {"port": 0}},
    {"grpc": {"port": 70000, "service": "a b"}},
    {"httpGet": {"port": 0}, "tcpSocket": {"port": 0}, "exec": {"command": ["x"]}},
]
TIMES: list[dict[str, Any]] = [
    {"terminationGracePeriodSeconds": 0},
    {"terminationGracePeriodSeconds": -1},
    {"terminationGracePeriodSeconds": 5},
    {"periodSeconds": -1, "timeoutSeconds": -1, "failureThreshold": -1, "successThreshold": -1},
    {"successThreshold": 2},
]
HOOKS: list[dict[str, Any]] = [
    *HANDLERS,
    {"sleep": {"seconds": 0}},
    {"sleep": {"seconds": -1}},
    {"sleep": {"seconds": 31}},
    {"sleep": {"seconds": 3}, "exec": {"command": ["x"]}},
]


def container(**more: Any) -> dict[str, Any]:
    return {"name": "c", "image": "i:1", "ports": [{"name": "web", "containerPort": 80}], **more}


def create(*containers: Any, init: Any = ()) -> Step:
    spec = {"containers": list(containers), **({"initContainers": list(init)} if init else {})}
    return post(PODS, {"metadata": {"name": "p"}, "spec": spec}, "dryRun=All")


HANDLING = [
    Case("handlers of probes", [create(container(readinessProbe=one)) for one in HANDLERS]),
    Case("times of probes", [
        create(container(**{f"{kind}Probe": {**GOOD, **times}}))
        for kind in ("liveness", "readiness", "startup")
        for times in TIMES
    ]),
    Case("handlers of hooks", [
        create(container(lifecycle={when: one})) for one in HOOKS for when in ("postStart", "preStop")
        if "grpc" not in one
    ]),
    Case("probes and hooks of init containers", [
        create(container(), init=[{"name": "i", "image": "i:1", **one}])
        for policy in ({}, {"restartPolicy": "Always"})
        for one in (
            {**policy, "readinessProbe": {"tcpSocket": {"port": 0}}},
            {**policy, "livenessProbe": {"tcpSocket": {"port": 80}}},
            {**policy, "startupProbe": {"exec": {}}},
            {**policy, "lifecycle": {"preStop": {"exec": {}}}},
            {**policy, "lifecycle": {}},
        )
    ]),
]  # fmt: skip
