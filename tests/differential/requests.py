"""Requests made by a seeded generator: objects with parts put wrong, patches of each type, options, selectors."""

from __future__ import annotations

import copy
import random
import re
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import quote

from tests.differential.objects import CLUSTERED, NAMESPACED, WITH_SCALE, WITH_STATUS, Json
from tests.server.rest.steps import JSON, MERGE, PATCH, STRATEGIC, Case, Step

APPLY = "application/apply-patch+yaml"
STEPS = 20
"""Requests of a case, which has a namespace of its own."""
_NAMES = ("a", "a", "a", "b", "b-1")
_VALUES: Sequence[Any] = (
    None, -1, 0, 1, 2, 70_000, 1 << 31, 1.5, True, "", "a", "A b", "x" * 64, "10", "50%", "1Gi", "-1", "100m", "1e3",
    "2024-01-01T00:00:00Z", "/", "a/b", "kubernetes.io/x", [], {}, ["a"], ["a", "a"], {"a": "b"}, [None], [{}],
)  # fmt: skip
_KEYS = ("invented", "name", "labels", "finalizers", "annotations", "replicas", "type", "selector", "ports", "Spec")
_ACCEPT = (
    *[JSON] * 6,
    f"{JSON};as=Table;v=v1;g=meta.k8s.io,{JSON}",
    f"{JSON};as=PartialObjectMetadata;v=v1;g=meta.k8s.io,{JSON}",
    "*/*",
    "text/html",
    "application/yaml;q=0.1,application/json",
)
_SELECTORS = ("app=a", "app!=a", "app in (a,b)", "app notin (a)", "!app", "app", "app=", "a b", "app==a,x", "=", "x>1")
_FIELDS = ("metadata.name=a", "metadata.name!=a", "metadata.namespace={ns}", "status.phase=Pending", "spec.x=1", "=")
_LISTING = (
    ("labelSelector", _SELECTORS),
    ("fieldSelector", _FIELDS),
    ("limit", ("1", "0", "x", "-1", "500")),
    ("resourceVersion", ("0", "", "x")),
    ("resourceVersionMatch", ("NotOlderThan", "Exact", "x")),
    ("includeObject", ("Object", "None", "x")),
    ("continue", ("x",)),
)
_WRITING = (
    ("dryRun", ("All", "x", "")),
    ("fieldValidation", ("Strict", "Warn", "Ignore", "x")),
    ("fieldManager", ("m", "n", "x" * 129)),
)
_DELETING = (
    ("dryRun", ("All", "x")),
    ("propagationPolicy", ("Background", "Orphan", "Foreground", "x")),
    ("gracePeriodSeconds", ("0", "1", "-1", "x")),
)
_DELETE_OPTIONS = ({"preconditions": {"uid": "x"}}, {"propagationPolicy": "Orphan"}, {"gracePeriodSeconds": 0})


def cases(seed: int, count: int) -> Iterator[Case]:
    """Yield that many cases, the same for the same seed."""
    for number in range(count):
        yield Case(f"differential {seed} {number}", list(_Maker(random.Random(f"{seed}/{number}")).steps()))


class _Maker:
    """Makes the requests of one case, about three kinds."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        kinds = [*NAMESPACED, *NAMESPACED, *CLUSTERED]
        self._kinds = rng.sample(kinds, 3)

    def steps(self) -> Iterator[Step]:
        rng = self._rng
        verbs = [self._create] * 5 + [self._get, self._list, self._update, self._delete] * 2 + [self._patch] * 6
        for number in range(STEPS):
            kind = rng.choice(self._kinds)
            yield self._create(kind) if number < len(self._kinds) else rng.choice(verbs)(kind)

    def _create(self, kind: str) -> Step:
        obj, query = self._object(kind), self._query(_WRITING)
        return Step("POST", self._collection(kind), obj, query=query, accept=self._form())

    def _get(self, kind: str) -> Step:
        return Step("GET", self._path(kind, subresources=True), accept=self._form())

    def _list(self, kind: str) -> Step:
        query = self._query(_LISTING, 0.3)
        if kind in CLUSTERED:  # others' objects are there, too
            query = re.sub(r"(^|&)(labelSelector|limit|continue)=[^&]*", "", query)
            query = "&".join(filter(None, (query.strip("&"), "labelSelector=case%3D{x}")))
        return Step("GET", self._collection(kind), query=query, accept=self._form())

    def _update(self, kind: str) -> Step:
        obj, path = self._object(kind), self._path(kind, subresources=True)
        if self._rng.random() < 0.2 and isinstance(obj.get("metadata"), dict):
            obj["metadata"]["resourceVersion"] = "1"
        return Step("PUT", path, obj, query=self._query(_WRITING), accept=self._form())

    def _delete(self, kind: str) -> Step:
        body = self._rng.choice((None, None, None, *_DELETE_OPTIONS))
        return Step("DELETE", self._path(kind), body, query=self._query(_DELETING, 0.2))

    def _patch(self, kind: str) -> Step:
        rng = self._rng
        media = rng.choice((MERGE, MERGE, STRATEGIC, STRATEGIC, PATCH, APPLY))
        path = self._path(kind, subresources=True)
        obj = self._object(kind)
        body: Any = obj
        query = self._query(_WRITING)
        if media == PATCH:
            body = [self._operation(obj) for _ in range(rng.randint(1, 3))]
        elif media == APPLY:
            query = query if "fieldManager" in query else "&".join(filter(None, (query, "fieldManager=m")))
            query += rng.choice(("", "&force=true"))
        else:
            body = self._part(obj)
        return Step("PATCH", path, body, media, query, accept=self._form())

    # -- parts ---------------------------------------------------------------------------------------------------------

    def _collection(self, kind: str) -> str:
        version, _, plural = kind.rpartition("/")
        middle = "namespaces/{ns}/" if kind in NAMESPACED else ""
        return f"/{'apis' if '/' in version else 'api'}/{version}/{middle}{plural}"

    def _path(self, kind: str, name: str = "", *, subresources: bool = False) -> str:
        plural = kind.rpartition("/")[2]
        path = f"{self._collection(kind)}/{name or self._name(kind)}"
        draw = self._rng.random()
        if subresources and draw < 0.15 and plural in WITH_STATUS:
            return f"{path}/status"
        return f"{path}/scale" if subresources and draw > 0.95 and plural in WITH_SCALE else path

    def _name(self, kind: str) -> str:
        return self._rng.choice(_NAMES) + ("" if kind in NAMESPACED else "-{x}")

    def _object(self, kind: str) -> Json:
        """Return an object of a kind; in one of two something is wrong or unusual."""
        rng = self._rng
        version, _, _ = kind.rpartition("/")
        known = NAMESPACED.get(kind) or CLUSTERED[kind]
        meta = {"name": self._name(kind), "labels": {"app": rng.choice("ab"), "case": "{x}"}}
        head: Json = {"apiVersion": version, "kind": KINDS[kind.rpartition("/")[2]], "metadata": meta}
        obj = {**head, **copy.deepcopy(known)}
        if rng.random() < 0.5:
            for _ in range(rng.randint(1, 2)):
                self._spoil(obj)
        return obj

    def _spoil(self, obj: Json) -> None:
        rng = self._rng
        path = rng.choice([path for path in _paths(obj) if not _keeps(path)])
        *parents, last = path
        at: Any = obj
        for part in parents:
            at = at[part]
        draw, key = rng.random(), rng.choice(_KEYS)
        if draw < 0.2 and isinstance(at, dict):
            del at[last]
        elif draw < 0.35 and isinstance(at, dict) and not _keeps((*parents, key)):
            at[key] = copy.deepcopy(rng.choice(_VALUES))
        elif draw < 0.45 and isinstance(at, list):
            at.append(copy.deepcopy(at[last]))
        else:
            at[last] = copy.deepcopy(rng.choice(_VALUES))

    def _part(self, obj: Json) -> Json:
        """Return a part of an object, as a merge patch has it."""
        chosen = {name: obj[name] for name in obj if name not in ("apiVersion", "kind") and self._rng.random() < 0.5}
        if isinstance(chosen.get("metadata"), dict) and self._rng.random() < 0.8:
            chosen["metadata"].pop("name", None)
        return chosen

    def _operation(self, obj: Json) -> Json:
        rng = self._rng
        path = rng.choice(list(_paths(obj)))
        if rng.random() < 0.15:
            path = (*path, rng.choice(("-", "x", 0)))
        pointer = "/" + "/".join(str(part).replace("~", "~0").replace("/", "~1") for part in path)
        op = rng.choice(("add", "replace", "remove", "test"))
        return {"op": op, "path": pointer, **({} if op == "remove" else {"value": rng.choice(_VALUES)})}

    def _query(self, options: Sequence[tuple[str, Sequence[str]]], chance: float = 0.12) -> str:
        rng = self._rng
        return "&".join(
            f"{name}={quote(rng.choice(values), safe='{}')}" for name, values in options if rng.random() < chance
        )

    def _form(self) -> str:
        return self._rng.choice(_ACCEPT)


def _keeps(path: tuple[Any, ...]) -> bool:
    """Tell what is not put wrong: the label by which lists find the objects of this case, and what an object is."""
    return path in (("metadata",), ("metadata", "labels"), ("metadata", "labels", "case"), ("kind",), ("apiVersion",))


def _paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, inner in items:
        yield from _paths(inner, (*path, name))


KINDS = {
    kind.lower() + ("es" if kind.endswith("s") else "s"): kind
    for kind in (
        "Pod ConfigMap Secret Service ServiceAccount PersistentVolumeClaim PodTemplate ReplicationController Event "
        "Deployment ReplicaSet StatefulSet DaemonSet ControllerRevision Job CronJob PodDisruptionBudget Lease Role "
        "RoleBinding Ingress EndpointSlice HorizontalPodAutoscaler PersistentVolume PriorityClass StorageClass "
        "CSIDriver ClusterRole ClusterRoleBinding RuntimeClass IngressClass"
    ).split()
} | {"endpoints": "Endpoints", "networkpolicies": "NetworkPolicy"}
"""By plural."""
