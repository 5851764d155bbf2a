"""Requests that change pods that run: ``pods/resize`` and ``pods/ephemeralcontainers``."""

from __future__ import annotations

from typing import Any

from tests.server.rest.steps import MERGE, PATCH, STRATEGIC, Case, Step, get, own_words, patch, post, put

PODS = "/api/v1/namespaces/{ns}/pods"
RESIZE, DEBUG = f"{PODS}/p/resize", f"{PODS}/p/ephemeralcontainers"
APPLY = "application/apply-patch+yaml"


def container(name: str = "a", requests: Any = None, limits: Any = None, **more: Any) -> dict[str, Any]:
    resources = {key: value for key, value in (("requests", requests), ("limits", limits)) if value is not None}
    return {"name": name, "image": "busybox", **({"resources": resources} if resources else {}), **more}


def pod(*containers: Any, **spec: Any) -> dict[str, Any]:
    body = {"containers": list(containers), **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": body}


def create(*containers: Any, **spec: Any) -> Step:
    return post(PODS, pod(*containers, **spec), quiet=True)


def resize(*containers: Any, media: str = STRATEGIC, **spec: Any) -> Step:
    return patch(RESIZE, {"spec": {"containers": list(containers), **spec}}, media)


def debug(*containers: Any, media: str = STRATEGIC, **more: Any) -> Step:
    return patch(DEBUG, {"spec": {"ephemeralContainers": list(containers)}, **more}, media)


SMALL, LARGE = {"cpu": "100m", "memory": "64Mi"}, {"cpu": "1", "memory": "64Mi"}
BURSTABLE = container(requests=SMALL)
GUARANTEED = container(requests=SMALL, limits=SMALL)
SIDECAR = container("s", SMALL, restartPolicy="Always")
LARGER = {**SIDECAR, "resources": {"requests": LARGE}}
FIRST, LABELLED = "/spec/containers/0", {"name": "p", "labels": {"a": "b"}}
TWO_CORES = {"cpu": "2", "memory": "1Gi"}
RESTARTED = [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]
RUNNING = {
    "containerStatuses": [
        {
            "name": "a",
            "image": "busybox",
            "imageID": "busybox",
            "ready": True,
            "restartCount": 0,
            "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
        }
    ]
}
EMPTY_RANGE = {
    "apiVersion": "v1",
    "kind": "LimitRange",
    "metadata": {"name": "l"},
    "spec": {"limits": [{"type": "Container", "max": {"cpu": "500m"}, "min": {"cpu": "10m"}}]},
}
ENDS_AT_ONCE = {"restartPolicy": "Never"}

CHANGES = [
    Case("resize by a strategic patch", [create(BURSTABLE), resize({"name": "a", "resources": {"requests": LARGE}})]),
    Case("resize by a merge patch", [create(BURSTABLE), resize(container(requests=LARGE), media=MERGE)]),
    Case(
        "resize by a JSON patch",
        [
            create(BURSTABLE),
            patch(RESIZE, [{"op": "replace", "path": f"{FIRST}/resources/requests/cpu", "value": "2"}], PATCH),
            get(RESIZE),
        ],
    ),
    Case(
        "resize by PUT takes resources alone",
        [
            create(BURSTABLE),
            put(RESIZE, {**pod(container(requests=LARGE, command=["x"])), "metadata": LABELLED}),
            get(f"{PODS}/p"),
        ],
    ),
    Case(
        "resize by apply owns resources alone",
        [
            create(BURSTABLE),
            patch(
                RESIZE,
                {**pod({"name": "a", "resources": {"requests": {"cpu": "300m"}}}), "metadata": {"name": "p"}},
                APPLY,
                "fieldManager=m&force=true",
            ),
        ],
    ),
    Case("resize that changes nothing", [create(BURSTABLE), resize({"name": "a", "resources": {"requests": SMALL}})]),
    Case("resize a missing pod", [resize(BURSTABLE)]),
    Case("a resize changes no labels", [create(BURSTABLE), patch(RESIZE, {"metadata": {"labels": {"a": "b"}}}, MERGE)]),
    Case("a resize may not change the class of service", [create(BURSTABLE), resize({**GUARANTEED, "image": "other"})]),
    Case("a pod without resources cannot be resized", [create(container()), resize(BURSTABLE)]),
    Case(
        "limits may be added",
        [create(BURSTABLE), resize({"name": "a", "resources": {"limits": {"cpu": "1"}}})],
    ),
    Case(
        "a limit below the request is refused",
        [create(BURSTABLE), resize({"name": "a", "resources": {"limits": {"cpu": "50m"}}})],
    ),
    Case("requests may not be removed", [create(BURSTABLE), resize(container(requests={"cpu": "1"}), media=MERGE)]),
    Case(
        "limits may not be removed",
        [
            create(container(requests=SMALL, limits=LARGE)),
            resize(container(requests=SMALL, limits={"cpu": "1"}), media=MERGE),
        ],
    ),
    Case(
        "only cpu and memory may be resized",
        [
            create(BURSTABLE),
            resize({"name": "a", "resources": {"requests": {"ephemeral-storage": "1Gi"}}}),
        ],
    ),
    Case("no container may be added by a resize", [create(BURSTABLE), resize(container("b", SMALL))]),
    Case(
        "no container may be renamed by a resize",
        [create(BURSTABLE), resize(container("b", SMALL), media=MERGE)],
    ),
    Case(
        "the policy of a resize is fixed",
        [create(BURSTABLE), resize({"name": "a", "resizePolicy": RESTARTED})],
    ),
    Case(
        "a sidecar may be resized",
        [create(BURSTABLE, initContainers=[SIDECAR]), resize(initContainers=[LARGER])],
    ),
    Case(
        "an init container may be resized",
        [
            create(BURSTABLE, initContainers=[container("i", SMALL)]),
            resize(initContainers=[container("i", LARGE)]),
        ],
    ),
    Case(
        "of a sidecar only cpu and memory may be resized",
        [
            create(BURSTABLE, initContainers=[SIDECAR]),
            resize(initContainers=[{**SIDECAR, "resources": {"requests": {"ephemeral-storage": "1Gi"}}}]),
        ],
    ),
    Case(
        "a node that does not resize",
        [
            create(BURSTABLE),
            patch(f"{PODS}/p/status", {"status": RUNNING}, MERGE, quiet=True),
            resize({"name": "a", "resources": {"requests": LARGE}}),
        ],
    ),
    Case(
        "a static pod cannot be changed",
        [
            post(
                PODS,
                {
                    **pod(BURSTABLE, nodeName="n1"),
                    "metadata": {"name": "p", "annotations": {"kubernetes.io/config.mirror": "x"}},
                },
                quiet=True,
            ),
            resize({"name": "a", "resources": {"requests": LARGE}}),
            debug(container("d")),
        ],
    ),
    Case(
        "a resize beyond the node is refused",
        [
            create(BURSTABLE, nodeName="n-{x}"),
            resize({"name": "a", "resources": {"requests": LARGE}}),
            post("/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n-{x}"}}, quiet=True),
            patch("/api/v1/nodes/n-{x}/status", {"status": {"allocatable": TWO_CORES}}, MERGE, quiet=True),
            resize({"name": "a", "resources": {"requests": {"cpu": "3", "memory": "2Gi"}}}),
            resize({"name": "a", "resources": {"requests": LARGE}}),
        ],
    ),
    Case(
        "resize policies are checked",
        [
            post(PODS, pod(container(resizePolicy=[*RESTARTED, *RESTARTED]))),
            post(PODS, pod(container(resizePolicy=[{"resourceName": "disk", "restartPolicy": "Perhaps"}]))),
            post(PODS, pod(container(resizePolicy=[{"resourceName": "", "restartPolicy": ""}]))),
            post(PODS, pod(container(resizePolicy=RESTARTED), **ENDS_AT_ONCE)),
            post(PODS, pod(BURSTABLE, initContainers=[container("i", resizePolicy=RESTARTED)])),
            post(PODS, pod(BURSTABLE, initContainers=[{**SIDECAR, "resizePolicy": RESTARTED}])),
        ],
    ),
    Case(
        "a resize is held against limit ranges",
        [
            create(BURSTABLE),
            post("/api/v1/namespaces/{ns}/limitranges", EMPTY_RANGE, quiet=True),
            resize({"name": "a", "resources": {"requests": {"cpu": "700m"}, "limits": {"cpu": "800m"}}}),
            resize({"name": "a", "resources": {"requests": {"cpu": "5m"}, "limits": {"cpu": "500m"}}}),
            resize({"name": "a", "resources": {"requests": {"cpu": "200m"}, "limits": {"cpu": "500m"}}}),
        ],
    ),
    Case(
        "pod-level resources may be resized",
        [
            create(BURSTABLE, resources={"requests": SMALL}),
            resize(resources={"requests": LARGE}),
            patch(RESIZE, {"spec": {"resources": {"requests": {"memory": None}}}}, MERGE),
            patch(RESIZE, {"spec": {"resources": None}}, MERGE),
        ],
    ),
    Case(
        "an ephemeral container is added by a strategic patch",
        [
            create(BURSTABLE),
            debug({"name": "d", "image": "busybox:1", "targetContainerName": "a", "tty": True, "stdin": True}),
            get(DEBUG),
        ],
    ),
    Case(
        "ephemeral containers are replaced by PUT",
        [
            create(BURSTABLE),
            put(DEBUG, pod(BURSTABLE, ephemeralContainers=[{"name": "d", "image": "x"}])),
            put(DEBUG, pod(BURSTABLE, ephemeralContainers=[{"name": "e", "image": "y"}])),
        ],
    ),
    Case(
        "an ephemeral container by apply",
        [
            create(BURSTABLE),
            patch(DEBUG, pod(ephemeralContainers=[{"name": "d", "image": "x"}]), APPLY, "fieldManager=m"),
        ],
    ),
    Case(
        "of ephemeral containers nothing else is taken",
        [
            create(BURSTABLE),
            debug(container("d"), metadata={"labels": {"a": "b"}}),
            patch(DEBUG, {"spec": {"containers": [container(requests=LARGE)]}}, MERGE),
        ],
    ),
    Case(
        "what ephemeral containers may not have",
        [
            create(BURSTABLE, volumes=[{"name": "v", "emptyDir": {}}]),
            debug(
                container(
                    "d",
                    SMALL,
                    ports=[{"containerPort": 80}],
                    livenessProbe={"exec": {"command": ["x"]}},
                    lifecycle={"preStop": {"exec": {"command": ["x"]}}},
                    volumeMounts=[{"name": "v", "mountPath": "/v", "subPath": "x"}],
                )
            ),
            debug(container("a")),
            debug({**container("d"), "targetContainerName": "missing"}),
            debug({"name": "d"}),
            debug({"name": "D_", "image": "x"}),
        ],
    ),
    Case("a new pod has no ephemeral containers", [post(PODS, pod(BURSTABLE, ephemeralContainers=[container("d")]))]),
    Case(
        "a template has no ephemeral containers",
        [
            post(
                "/api/v1/namespaces/{ns}/podtemplates",
                {
                    "apiVersion": "v1",
                    "kind": "PodTemplate",
                    "metadata": {"name": "t"},
                    "template": {"spec": pod(BURSTABLE, ephemeralContainers=[container("d")])["spec"]},
                },
            )
        ],
    ),
    Case(
        "the pod itself changes neither",
        [
            create(BURSTABLE),
            own_words(patch(f"{PODS}/p", {"spec": {"ephemeralContainers": [container("d")]}}, STRATEGIC)),
            own_words(patch(f"{PODS}/p", {"spec": {"containers": [container(requests=LARGE)]}}, STRATEGIC)),
        ],
    ),
    Case(
        "other verbs of these subresources",
        [post(RESIZE, pod(BURSTABLE)), Step("DELETE", DEBUG), Step("DELETE", RESIZE)],
    ),
]  # fmt: skip
