"""Requests in which generated ones (`make differential`) found the server to differ from a real one."""

from __future__ import annotations

from typing import Any

from tests.server.rest.objects import CRDS, WIDGETS, crd, widget
from tests.server.rest.steps import MERGE, PATCH, Case, Step, delete, differs, get, own_words, patch, post, put

CORE = "/api/v1/namespaces/{ns}"
APPS, BATCH = "/apis/apps/v1/namespaces/{ns}", "/apis/batch/v1/namespaces/{ns}"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
LABELS = {"a": "b"}
CONTAINER = {"name": "c", "image": "i:1"}
TEMPLATE = {"metadata": {"labels": LABELS}, "spec": {"containers": [CONTAINER]}}
DEPLOYMENT = {"selector": {"matchLabels": LABELS}, "template": TEMPLATE}
WORKLOADS = ("deployments", "replicasets", "statefulsets", "daemonsets")
SELECTORS: tuple[Any, ...] = (
    None,
    {},
    {"matchLabels": {}},
    {"matchLabels": {"a": "c"}},
    {"matchLabels": {"a": "b c"}},
    {"matchLabels": {"a b": "c"}},
)
SOURCES = (
    {},
    {"fieldRef": {}},
    {"resourceFieldRef": {}},
    {"configMapKeyRef": {}},
    {"secretKeyRef": {}},
    {"fieldRef": {"fieldPath": "metadata.name"}, "secretKeyRef": {}},
)


def named(name: str, spec: Any = None, **more: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, **({} if spec is None else {"spec": spec}), **more}


def selected(plural: str) -> list[Step]:
    """Return creations with each selector."""
    more = {"serviceName": "s"} if plural == "statefulsets" else {}
    return [
        post(f"{APPS}/{plural}", named("w", {**DEPLOYMENT, **more, "selector": selector})) for selector in SELECTORS
    ]


def revisions() -> list[Step]:
    path = f"{APPS}/controllerrevisions"
    return [
        post(path, '{"metadata":{"name":"a"},"data":{"a":1},"revision":1}'),  # the real one compares spaces, too
        post(path, named("b", revision=1)),
        post(path, named("b", data={"a": 1}, revision=-1)),
        patch(f"{path}/a", {"revision": 2}),
        own_words(patch(f"{path}/a", {"data": {"a": 2}})),
    ]


def volumes() -> list[Step]:
    path = "/api/v1/persistentvolumes"
    spec = {"capacity": {"storage": "1Gi"}, "hostPath": {"path": "/x"}}
    twice = {**spec, "accessModes": ["ReadWriteOnce", "ReadOnlyMany", "ReadWriteOnce"]}
    then = "2024-01-01T00:00:00Z"
    return [
        post(path, named("v-{x}", twice)),
        get(f"{path}/v-{{x}}", accept=TABLE),
        patch(f"{path}/v-{{x}}/status", {"status": {"message": "m"}}),
        patch(f"{path}/v-{{x}}/status", {"status": {"phase": "Available"}}),
        patch(f"{path}/v-{{x}}/status", {"status": {"phase": "Bound", "lastPhaseTransitionTime": then}}),
        patch(f"{path}/v-{{x}}/status", {"status": {"lastPhaseTransitionTime": None}}),
        patch(f"{path}/v-{{x}}", {"metadata": {"labels": LABELS}}),
    ]


def scales() -> list[Step]:
    path = f"{APPS}/deployments/d/scale"
    scale = {"apiVersion": "autoscaling/v1", "kind": "Scale", **named("d", {"replicas": 3})}
    return [
        patch(path, {"spec": {"replicas": 2}}, MERGE, "dryRun=Some"),
        put(path, scale, "fieldManager=" + "x" * 129),
        own_words(put(path, {**scale, "apiVersion": "apps/v1", "kind": "Deployment"})),
        put(path, scale),
        post(f"{APPS}/deployments", named("d", DEPLOYMENT), quiet=True),
        own_words(put(path, {**scale, "apiVersion": "apps/v1", "kind": "Deployment"})),
        put(path, scale),
        put(path, named("d", {"replicas": 4})),
    ]


def deletions() -> list[Step]:
    jobs = f"{BATCH}/jobs"
    once = {"template": {"spec": {"containers": [CONTAINER], "restartPolicy": "Never"}}}
    ways: tuple[tuple[Any, str], ...] = (
        (None, ""),
        ({"gracePeriodSeconds": 0}, ""),
        ({"orphanDependents": False}, ""),
        (None, "propagationPolicy=Orphan"),
        (None, "dryRun=x&propagationPolicy=x"),
    )
    steps = []
    for number, (body, query) in enumerate(ways):
        steps += [post(jobs, named(f"j{number}", once), quiet=True), delete(f"{jobs}/j{number}", body, query)]
    return [*steps, delete(jobs)]


def shown(**about: str) -> list[Step]:
    """Return an event about something, and its row of a table."""
    event = named("e", involvedObject={"namespace": "{ns}", **about}, reason="R", message="m", type="Normal")
    return [
        post(f"{CORE}/events", event, quiet=True),
        get(f"{CORE}/events/e", accept=TABLE),
        delete(f"{CORE}/events/e"),
    ]


def finite() -> list[Step]:
    """Return Jobs and CronJobs whose pods would never end, and updates that leave the selector out."""
    jobs, crons = f"{BATCH}/jobs", f"{BATCH}/cronjobs"
    endless = {"template": {"spec": {"containers": [CONTAINER], "restartPolicy": "Always"}}}
    once = {"template": {"spec": {"containers": [CONTAINER], "restartPolicy": "Never"}}}
    return [
        post(jobs, named("j", endless)),
        post(crons, named("c", {"schedule": "* * * * *", "jobTemplate": {"spec": endless}})),
        post(crons, named("c", {"schedule": "* * * * *"})),
        post(jobs, named("j", once), quiet=True),
        own_words(put(f"{jobs}/j", named("j", once))),
        patch(f"{jobs}/j", {"spec": {"parallelism": -1}}),
    ]


STATUSES = {
    f"{CORE}/services": {"ports": [{"port": 80}], "clusterIP": "None", "selector": LABELS},
    f"{CORE}/replicationcontrollers": {"template": TEMPLATE},
    f"{APPS}/replicasets": DEPLOYMENT,
    f"{APPS}/statefulsets": {**DEPLOYMENT, "serviceName": "s"},
    "/apis/policy/v1/namespaces/{ns}/poddisruptionbudgets": {"minAvailable": 1},
    "/apis/networking.k8s.io/v1/namespaces/{ns}/ingresses": {
        "defaultBackend": {"service": {"name": "s", "port": {"number": 1}}}
    },
}
"""What a status of these is never without is there when one is written that leaves it out."""


def statuses() -> list[Step]:
    steps = []
    for path, spec in STATUSES.items():
        steps += [post(path, named("s", spec), quiet=True), patch(f"{path}/s/status", {"status": None}, quiet=True)]
        steps += [patch(f"{path}/s/status", [{"op": "add", "path": "/status", "value": {}}], PATCH, quiet=True)]
        steps += [get(f"{path}/s")]
    return steps


CHANGES = "the generation of a CSIDriver is not counted"
OLDER = "deprecated.daemonset.template.generation"
COLUMNS = "the column of names says so in the table of a scale too"
FINITE = {"containers": [CONTAINER], "restartPolicy": "Never"}
STORAGE = "/apis/storage.k8s.io/v1"
CLASSES = ("", "standard", "A", "kubernetes.io/x")
SERVICES: tuple[str, ...] = ("", "s", "/", "a_b", "1a", "a.b", "S")
EVENT = {"involvedObject": {"namespace": "{ns}", "kind": "Pod", "name": "p"}, "reason": "R", "message": "m"}
AGREED = [
    Case("classes of claims", [
        post(f"{CORE}/persistentvolumeclaims", named("c", {"accessModes": ["ReadWriteOnce"], "storageClassName": name}))
        for name in CLASSES
    ]),
    Case("services of StatefulSets", [
        step
        for name in SERVICES
        for step in (
            post(f"{APPS}/statefulsets", named("s", {**DEPLOYMENT, "serviceName": name}), quiet=name == ""),
            delete(f"{APPS}/statefulsets/s", quiet=True),
        )
    ]),
    Case("selectors of budgets", [
        post("/apis/policy/v1/namespaces/{ns}/poddisruptionbudgets", named("b", {"selector": one, **bounds}))
        for one in ({}, *SELECTORS[3:])
        for bounds in ({"minAvailable": "x"}, {"minAvailable": 1, "maxUnavailable": 1}, {"minAvailable": 1})
    ]),
    Case("deletions of events", [
        step
        for options in ({"propagationPolicy": "Orphan"}, {"propagationPolicy": "Foreground"}, {"gracePeriodSeconds": 5})
        for step in (
            post(f"{CORE}/events", named("e", **EVENT), quiet=True),
            delete(f"{CORE}/events/e", options),
            get(f"{CORE}/events/e"),
        )
    ]),
    Case("kinds that are no texts", [
        own_words(step)
        for value in (0, 1, False, [], {}, ["ConfigMap"])
        for step in (
            post(f"{CORE}/configmaps", {"metadata": {"name": "m"}, "kind": value}),
            post(f"{CORE}/configmaps", {"metadata": {"name": "m"}, "apiVersion": value}),
            put(f"{CORE}/configmaps/n", {"metadata": {"name": "n"}, "kind": value}),
        )
    ]),
    Case("patches of kinds to what is no text", [
        post(f"{CORE}/configmaps", named("m"), quiet=True),
        *(
            own_words(patch(f"{CORE}/configmaps/m", [{"op": "replace", "path": f"/{member}", "value": value}], PATCH))
            for member in ("kind", "apiVersion")
            for value in (0, 1, [], {})
        ),
        *(own_words(patch(f"{CORE}/configmaps/m", {"kind": value})) for value in (0, 1, [], {})),
    ]),
    Case("labels of jobs", [
        step
        for number, labels in enumerate((None, {}, LABELS))
        for step in (
            post(f"{BATCH}/jobs", named(f"j{number}", {"template": {"metadata": {"labels": labels}, "spec": FINITE}})),
            patch(f"{BATCH}/jobs/j{number}", [{"op": "add", "path": "/metadata/labels", "value": {}}], PATCH),
            patch(f"{BATCH}/jobs/j{number}", {"metadata": {"labels": {"c": "d"}}}),
        )
    ]),
    Case("drivers of storage", [
        post(f"{STORAGE}/csidrivers", named("d-{x}"), quiet=True),
        patch(f"{STORAGE}/csidrivers/d-{{x}}", {"spec": {"attachRequired": False}}),
        differs(CHANGES, patch(f"{STORAGE}/csidrivers/d-{{x}}", {"spec": {"storageCapacity": True}})),
        patch(f"{STORAGE}/csidrivers/d-{{x}}", {"spec": {"fsGroupPolicy": "None"}}, quiet=True),
        patch(f"{STORAGE}/csidrivers/d-{{x}}", {"spec": {"fsGroupPolicy": "x"}}),
        patch(f"{STORAGE}/csidrivers/d-{{x}}", {"spec": {"volumeLifecycleModes": ["Ephemeral"]}}),
        patch(f"{STORAGE}/csidrivers/d-{{x}}", {"spec": {"seLinuxMount": True}}, quiet=True),
        *(
            post(f"{STORAGE}/csidrivers", named("e-{x}", spec))
            for spec in (
                {"volumeLifecycleModes": ["x", "Persistent"]},
                {"fsGroupPolicy": ""},
                {"fsGroupPolicy": "x"},
                {"tokenRequests": [{"audience": "a"}, {"audience": "a"}, {"expirationSeconds": 1, "audience": ""}]},
            )
        ),
    ]),
    Case("a version that is deprecated", [
        post(CRDS, crd(deprecated=True), quiet=True),
        get(WIDGETS, until=200),
        post(WIDGETS, {**widget("w"), "other": 1}),
        post(WIDGETS, widget("x", {"size": 99})),
        patch(f"{WIDGETS}/w", {"spec": {"size": 2}}, MERGE),
        put(f"{WIDGETS}/w", widget("w")),
        get(f"{WIDGETS}/none"),
        delete(f"{WIDGETS}/w"),
    ]),
    Case("a version that says what to use", [
        post(CRDS, crd(deprecated=True, deprecationWarning='use "v2"'), quiet=True),
        get(WIDGETS, until=200),
        post(WIDGETS, {**widget("w"), "other": 1}),
    ]),
    Case("templates of daemon sets", [
        *(post(f"{APPS}/daemonsets", named(name, DEPLOYMENT)) for name in "abc"),
        post(f"{APPS}/daemonsets", {"metadata": {"name": "d", "annotations": {OLDER: "7"}}, "spec": DEPLOYMENT}),
        patch(f"{APPS}/daemonsets/d", {"metadata": {"labels": LABELS}}),
        patch(f"{APPS}/daemonsets/d", {"spec": {"minReadySeconds": 5}}),
        patch(f"{APPS}/daemonsets/d", {"metadata": {"annotations": {OLDER: "3"}}}),
        patch(f"{APPS}/daemonsets/d", {"metadata": {"annotations": None}}),
        patch(f"{APPS}/daemonsets/d", {"spec": {"template": {"spec": {"dnsPolicy": "Default"}}}}),
        patch(f"{APPS}/daemonsets/d/status", {"status": {"observedGeneration": 2}}),
        put(f"{APPS}/daemonsets/d", named("d", DEPLOYMENT)),
        put(f"{APPS}/daemonsets/d/status", {**named("d", DEPLOYMENT), "status": {"numberReady": 1}}, quiet=True),
        get(f"{APPS}/daemonsets/d"),
    ]),
    Case("names of budgets", [
        post("/apis/policy/v1/namespaces/{ns}/poddisruptionbudgets", named(name, {"minAvailable": 1}))
        for name in ("A b", "a_b", "..", "a%b", "")
    ]),
    Case("names of events", [post(f"{CORE}/events", named(name, **EVENT)) for name in ("A:b", "a_b", "..", "a%b")]),
    *(Case(f"selectors of {plural}", selected(plural)) for plural in WORKLOADS),
    Case("sources of variables", [
        post(f"{CORE}/pods", named("p", {"containers": [{**CONTAINER, "env": [{"name": "A", "valueFrom": source}]}]}))
        for source in SOURCES
    ]),
    Case("ports of services beyond 32 bits", [
        own_words(post(f"{CORE}/services", named("s", {"ports": [{"port": 80, "targetPort": number}]})))
        for number in (1 << 31, (1 << 31) - 1, -(1 << 31) - 1, 1 << 64)
    ]),
    Case("revisions of controllers", revisions()),
    Case("phases of volumes", volumes()),
    Case("scales that are none", scales()),
    Case("deletions of jobs", deletions()),
    Case("pods that never end, of jobs", finite()),
    Case("statuses that leave out what they have", statuses()),
    Case("forms of scales", [
        post(f"{APPS}/deployments", named("d", DEPLOYMENT), quiet=True),
        differs(COLUMNS, get(f"{APPS}/deployments/d/scale", accept=TABLE)),
        patch(f"{APPS}/deployments/d/scale", {"spec": {"replicas": 2, "selector": {}}, "other": 1}),
        own_words(
            patch(f"{APPS}/deployments/d/scale", {"spec": {"replicas": 2, "a": 1}}, MERGE, "fieldValidation=Strict")
        ),
        own_words(put(f"{APPS}/deployments/d/scale", named("d", {"a": 1}), "fieldValidation=Strict")),
        put(f"{APPS}/deployments/d/scale", named("d", {"replicas": 4, "a": 1})),
        own_words(get(f"{APPS}/deployments/other/scale", accept="text/html")),
        get(f"{APPS}/deployments/d/scale", accept="application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"),
    ]),
    Case("events about nothing", [*shown(kind="Pod"), *shown(name="p"), *shown(kind="Pod", name="p"), *shown()]),
    Case("field selectors of nothing", [
        get(f"{CORE}/configmaps", f"fieldSelector={text}")
        for text in ("%3D", "%3D%3D", "%3D,metadata.name%3Da", "!%3D", "%3Dx", ",")
    ]),
    Case("a runtime class by an update", [
        put("/apis/node.k8s.io/v1/runtimeclasses/r-{x}", named("r-{x}", handler="runc")),
        put("/apis/node.k8s.io/v1/runtimeclasses/r-{x}", named("r-{x}", handler="runc")),
        patch(
            "/apis/node.k8s.io/v1/runtimeclasses/r-{x}",
            [{"op": "replace", "path": "/handler", "value": "other"}],
            PATCH,
        ),
    ]),
]  # fmt: skip
