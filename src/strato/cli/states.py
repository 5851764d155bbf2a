"""Read, complete, save and run the states on which dry-run commands decide: from files, a log or a cluster."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from strato.api import catalog
from strato.api.core import Pod
from strato.api.volcano.scheduling import GROUP_ANNOTATION
from strato.cli.connect import with_cluster
from strato.cli.statesource import StateSource
from strato.client.cluster import Cluster
from strato.clock import SystemClock
from strato.controllers.podgroup import build_group, is_ours
from strato.errors import Forbidden, InvalidInput, NotFound, Problem
from strato.scheduler.cache import kinds
from strato.scheduler.cache.world import World
from strato.scheduler.config import default_config, parse_config, read_config_text
from strato.scheduler.configpublishing import published
from strato.scheduler.dryrun.decoding import decode
from strato.scheduler.dryrun.manifests import Json, Located, read_paths
from strato.scheduler.dryrun.run import decode_all, load
from strato.scheduler.dryrun.states import Header, ManifestState, latest_date, state_of
from strato.scheduler.dryrun.trial import Copy
from strato.scheduler.framework.options import Config

_PAGE = 500
_CONFIG_MAP = ("volcano-scheduler-configmap", "volcano-system")
"""Name and namespace of the ConfigMap with an installed scheduler's configuration."""
_SHAPING = (catalog.LIMITRANGE, catalog.JOBTEMPLATE)
"""Kinds that only admission and controllers read, needed to expand added manifests into pods."""
_GANG_SCHEDULERS = ("volcano",)
"""Schedulers for whose pods the PodGroup controller creates groups."""


def read(paths: Sequence[str], more: Iterable[Located] = ()) -> ManifestState:
    """Read manifests, append them to ``more``, and add the pods and groups that controllers would create of them."""
    found = read_paths(paths)
    given, found.objects = found.objects, [*more, *found.objects]
    state = state_of(found)
    if not any(kinds.find(str(obj.get("apiVersion", "")), str(obj.get("kind"))) is None for _, obj in given):
        return state
    from strato.sim.expansion import expand  # loads for half a second: only if needed

    is_live = len(given) < len(found.objects)
    now = SystemClock().now() if is_live else latest_date(state.objects)
    made = expand(state.objects, given, now)
    for note in made.notes:
        click.echo(f"note: {note}", err=True)
    return replace(state, objects=made.objects, problems=[*state.problems, *made.problems])


def passed_over(state: ManifestState) -> list[str]:
    """Return a sentence for each known kind among a state's objects that the scheduler does not read."""
    from strato.sim.expansion import CONTEXT, WORKLOADS

    counts: Counter[str] = Counter()
    for _, obj in state.objects:
        kind = catalog.find_named(str(obj.get("apiVersion", "")), str(obj.get("kind")))
        unread = kinds.find(str(obj.get("apiVersion", "")), str(obj.get("kind"))) is None
        if unread and kind is not None and kind not in (*WORKLOADS, *CONTEXT, catalog.EVENT):
            counts[kind.name] += 1
    return [f"{count} of kind {name} passed over; the scheduler does not read it" for name, count in counts.items()]


def header_of(
    state: ManifestState,
    *,
    config: str | None = None,
    cycles: int | None = None,
    seed: int | None = None,
    shard_mode: str | None = None,
    shard_name: str | None = None,
    live: bool = False,
) -> Header:
    """Return the header (configuration, cycles, seed, shard): each as given, else as saved, else the default."""
    header = state.header or Header(now=SystemClock().now() if live else latest_date(state.objects))
    given: dict[str, Any] = {"config": config, "cycles": cycles, "seed": seed}
    shard: dict[str, Any] = {"mode": shard_mode, "name": shard_name}
    sharding = replace(header.sharding, **{name: value for name, value in shard.items() if value is not None})
    return replace(header, sharding=sharding, **{name: value for name, value in given.items() if value is not None})


def config_text(path: Path | None) -> str | None:
    """Return the text of a configuration file, None without one.

    Raises:
        InvalidInput: It cannot be read.
    """
    return read_config_text(path) if path is not None else None


def prepare(state: ManifestState, header: Header, base: Path = Path()) -> tuple[World, Config]:
    """Check state and configuration; return the world and the configuration to run on it.

    Raises:
        InvalidInput: Listing everything that is wrong with the manifests and the configuration.
    """
    config, problems = _config_of(header, base, state.problems)
    return load(with_groups(state.objects), problems, header.sharding), config


def copy_of(state: ManifestState, header: Header, base: Path = Path()) -> Copy:
    """Check state and configuration, as `prepare` does; return a copy for trial cycles.

    Raises:
        InvalidInput: Listing everything that is wrong with the manifests and the configuration.
    """
    config, problems = _config_of(header, base, state.problems)
    return Copy(decode_all(with_groups(state.objects), problems), config, header.seed, header.now)


def _of_log(path: Path, at: str | None) -> ManifestState:
    """Return a recorded log's state at an instant, or at its end; print a note for each torn part.

    Raises:
        BadLog: It is damaged, or no log.
        UsageError: The text is no instant.
    """
    from strato.sim.recording.instants import parse_instant
    from strato.sim.recording.log import open_log
    from strato.sim.recording.state import state_at

    log = open_log(path)
    for torn in log.torn:
        click.echo(f"note: {torn}", err=True)
    found = state_at(log, parse_instant(at, log.begin) if at is not None else math.inf)
    return ManifestState(list(found.manifests()), found.header())


def read_source(ctx: click.Context, source: StateSource, *, seed: int | None = None) -> tuple[ManifestState, Header]:
    """Return the state and its header (what decides on it) from manifests, a log or the cluster.

    The configuration is the given one, else the log's or the cluster's, else the default.

    Raises:
        BadLog: The log is damaged.
        InvalidInput: Listing everything that is wrong with the manifests and the configuration.
    """
    if source.is_cluster:
        return with_cluster(ctx, lambda cluster: read_cluster(cluster, source.config, seed=seed))
    state = _of_log(source.log, source.at) if source.log is not None else read(source.paths)
    return state, header_of(state, config=config_text(source.config), seed=seed)


async def read_cluster(
    cluster: Cluster, config: Path | None, *, seed: int | None = None
) -> tuple[ManifestState, Header]:
    """Return a cluster's state and header, with the given configuration, else the cluster's, else the default.

    Raises:
        InvalidInput: The configuration cannot be read.
    """
    text = config_text(config)
    state, served = await whole_cluster(cluster)
    return state, header_of(state, config=text if text is not None else served, seed=seed, live=True)


def copy_for(ctx: click.Context, source: StateSource) -> tuple[ManifestState, Copy]:
    """Return the state of `read_source`, and a copy of it for trial cycles.

    Raises:
        BadLog: The log is damaged.
        InvalidInput: Listing everything that is wrong with the manifests and the configuration.
    """
    state, header = read_source(ctx, source)
    return state, copy_of(state, header, source.base)


def _config_of(header: Header, base: Path, found: Sequence[Problem]) -> tuple[Config, list[Problem]]:
    problems = list(found)
    if not header.config:
        return default_config(), problems
    try:
        return parse_config(header.config, base=base), problems
    except InvalidInput as error:
        problems += [Problem(f"{error.what}: {p.where}" if p.where else error.what, p.message) for p in error.problems]
        return default_config(), problems


def with_groups(objects: Sequence[Located]) -> list[Located]:
    """Add the pod groups that the PodGroup controller would create for pods without one."""
    names = {(str(obj.get("kind")), *_name(obj)) for _, obj in objects}
    owners = {(obj.get("apiVersion"), obj.get("kind"), *_name(obj)): obj for _, obj in objects}
    groups: dict[tuple[str, str], Located] = {}
    out: list[Located] = []
    for where, obj in objects:
        pod = _plain_pod(obj, where)
        if pod is None:
            out.append((where, obj))
            continue
        group = build_group(pod, _inherited(pod, owners))
        group["metadata"]["creationTimestamp"] = pod.metadata.creation_timestamp or ""
        key = (pod.metadata.namespace, group["metadata"]["name"])
        if ("PodGroup", *key) not in names:
            groups.setdefault(key, (f"{where} (its PodGroup)", group))
        annotations = {**(pod.metadata.annotations or {}), GROUP_ANNOTATION: key[1]}
        out.append((where, {**obj, "metadata": {**obj["metadata"], "annotations": annotations}}))
    return [*groups.values(), *out]


def _name(obj: Json) -> tuple[str, str]:
    meta = obj.get("metadata")
    meta = meta if isinstance(meta, dict) else {}
    return str(meta.get("namespace") or "default"), str(meta.get("name"))


def _plain_pod(obj: Json, where: str) -> Pod | None:
    """Return the pod if the controller would create a group for it; `load` reports pods that cannot be decoded."""
    known = kinds.find(str(obj.get("apiVersion", "")), str(obj.get("kind")))
    if known is None or known.kind is not catalog.POD or not isinstance(obj.get("metadata"), dict):
        return None
    spec = obj.get("spec")
    if not isinstance(spec, dict) or spec.get("schedulerName") not in _GANG_SCHEDULERS:
        return None
    namespace, name = _name(obj)
    meta = {**obj["metadata"], "namespace": namespace}
    meta["uid"] = meta.get("uid") or f"{namespace}-{name}"
    pod, _ = decode(Pod, {**obj, "metadata": meta}, where)
    return pod if pod is not None and is_ours(pod, _GANG_SCHEDULERS) else None


def _inherited(pod: Pod, owners: Mapping[tuple[Any, ...], Json]) -> dict[str, str]:
    """Return the annotations of those owners of the pod that the state has; for each key the nearest owner's."""
    found: dict[str, str] = {}
    for owner in pod.metadata.owner_references or ():
        obj = owners.get((owner.api_version, owner.kind, pod.metadata.namespace, owner.name), {})
        annotations = obj.get("metadata", {}).get("annotations")
        for key, value in annotations.items() if isinstance(annotations, dict) else ():
            found.setdefault(str(key), str(value))
    return found


async def from_cluster(cluster: Cluster) -> list[Located]:
    """Return a cluster's objects of the kinds that the scheduler reads, and of those in `_SHAPING`.

    Kinds that the cluster does not serve are left out.
    """
    found: list[Located] = []
    for kind in (*(known.kind for known in kinds.KINDS), *_SHAPING):
        try:
            items = await _list(cluster, kind)
        except NotFound:
            continue
        except Forbidden:
            if kind not in _SHAPING:
                raise
            continue
        for item in items:
            meta = {key: value for key, value in item["metadata"].items() if key != "managedFields"}
            obj = {**item, "apiVersion": kind.api_version, "kind": kind.name, "metadata": meta}
            found.append((f"cluster: {kind.name} {meta.get('namespace', '')}/{meta['name']}", obj))
    return found


async def deciding_state(cluster: Cluster) -> tuple[list[Located], str | None]:
    """Return the objects that a cluster's scheduler reads, and its configuration if the user may read it."""
    return await from_cluster(cluster), await served_config(cluster)


async def whole_cluster(cluster: Cluster) -> tuple[ManifestState, str | None]:
    """Return a cluster's state with its jobs, and its scheduler's configuration if the user may read it."""
    found = await from_cluster(cluster)
    jobs = await _list(cluster, catalog.VCJOB)
    found += [("cluster: Job", {**job, "apiVersion": catalog.VCJOB.api_version, "kind": "Job"}) for job in jobs]
    return ManifestState(found), await served_config(cluster)


async def served_config(cluster: Cluster) -> str | None:
    """Return the configuration that the scheduler has published, else the one it was installed with, else None."""
    try:
        text = await published(cluster)
        if text is not None:
            return text
        config_map = await cluster.get(catalog.CONFIGMAP, *_CONFIG_MAP)
    except (NotFound, Forbidden):
        return None
    texts = [text for key, text in (config_map.get("data") or {}).items() if key.endswith(".conf")]
    return texts[0] if texts else None


async def choice_of(cluster: Cluster, namespace: str, pod: str) -> str:
    """Return the arcs and prices by which flow placed a pod, from the event of its placement; "" without one."""
    wanted = f"involvedObject.name={pod},reason=Scheduled"
    events = (await cluster.list(catalog.EVENT, namespace, field_selector=wanted)).items
    texts = [str(event.get("message", "")).partition("flow: ")[2] for event in events]
    return next((text.removesuffix(")") for text in reversed(texts) if text), "")


async def _list(cluster: Cluster, kind: Any) -> list[Json]:
    items: list[Json] = []
    token = ""
    while True:
        page = await cluster.list(kind, limit=_PAGE, continue_token=token)
        items += page.items
        token = page.continue_token
        if not token:
            return items


def as_json(value: object) -> str:
    """Return data as the text of ``-o json``."""
    return json.dumps(value, indent=2)
