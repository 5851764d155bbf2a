"""``strato explain``: why a pod, job, group or queue waits, and what would start it, asked of the engine on a copy."""

from __future__ import annotations

import functools
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from strato.cli.connect import with_cluster
from strato.cli.output import output_option, text_of
from strato.errors import UsageError

if TYPE_CHECKING:
    from strato.scheduler.dryrun.states import State
    from strato.scheduler.dryrun.trial import Copy
    from strato.scheduler.reporting.explain import Diagnosis

_KINDS = {
    "pod": "pod",
    "pods": "pod",
    "po": "pod",
    "job": "job",
    "jobs": "job",
    "vcjob": "job",
    "vj": "job",
    "podgroup": "podgroup",
    "podgroups": "podgroup",
    "pg": "podgroup",
    "queue": "queue",
    "queues": "queue",
    "q": "queue",
}

Json = dict[str, Any]


@click.command()
@click.argument("target")
@click.option("-n", "--namespace", default="default", show_default=True, help="Namespace.")
@click.option("-f", "--filename", "paths", multiple=True, metavar="PATH", help="Take the state from manifests instead.")
@click.option("--config", type=click.Path(path_type=Path), default=None, help="The scheduler's configuration file.")
@click.option("--fix", is_flag=True, help="Search the smallest change that starts it now; each is tried on a copy.")
@output_option
@click.pass_context
def explain(
    ctx: click.Context,
    target: str,
    namespace: str,
    paths: tuple[str, ...],
    config: Path | None,
    fix: bool,
    output: str,
) -> None:
    """Say why TARGET waits: a pod's name, pod/NAME, job/NAME, podgroup/NAME or queue/NAME.

    The scheduler's engine decides one cycle on a copy of the state, and says what held TARGET back: the binding
    constraint first, with its numbers. Nothing is changed anywhere.
    """
    from strato.cli import states

    word, _, name = target.rpartition("/")
    kind = _KINDS.get(word or "pod")
    if kind is None or not name:
        raise UsageError(f"{target!r}: write pod/NAME, job/NAME, podgroup/NAME or queue/NAME")
    if kind == "queue" and fix:
        raise UsageError("--fix looks for what starts one pod, job or pod group; name one of those in the queue")
    text = states.config_text(config)
    if paths:
        state = states.read(paths)
    else:
        state, served = with_cluster(ctx, states.whole_cluster)
        text = text if text is not None else served
    header = states.header_of(state, config=text, live=not paths)
    copy = states.copy_of(state, header, config.parent if config is not None else Path())
    chosen = ""
    if kind == "pod" and not paths and _is_bound(state, namespace, name):
        chosen = with_cluster(ctx, functools.partial(states.choice_of, namespace=namespace, pod=name))
    click.echo(_answer(copy, state, kind, name, namespace, fix=fix, output=output, chosen=chosen))


def _answer(
    copy: Copy, state: State, kind: str, name: str, namespace: str, *, fix: bool, output: str, chosen: str
) -> str:
    from strato.scheduler.dryrun.examine import examine, examine_queue
    from strato.scheduler.model.reasons import Verdict

    if kind == "queue":
        found = examine_queue(copy, name)
    elif kind == "job":
        return _job(copy, state, name, namespace, fix=fix, output=output)
    else:
        found = examine(copy, f"{namespace}/{name}", fix=fix)
    if found is None:
        raise UsageError(f"there is no {kind} {name!r}" + ("" if kind == "queue" else f" in namespace {namespace}"))
    if chosen:
        found = replace(found, verdicts=(Verdict("flow", "FlowChoice", chosen), *found.verdicts))
    return _written(found, output)


def _is_bound(state: State, namespace: str, name: str) -> bool:
    pod = _find(state, "Pod", namespace, name)
    return pod is not None and bool((pod.get("spec") or {}).get("nodeName"))


def _written(found: Diagnosis, output: str) -> str:
    return found.render() if output == "table" else text_of(found.to_json(), output)


def _job(copy: Copy, state: State, name: str, namespace: str, *, fix: bool, output: str) -> str:
    from strato.scheduler.dryrun.examine import examine

    job = _find(state, "Job", namespace, name)
    groups = [group for group in _groups(state, namespace) if _belongs(group, name, job)]
    for group in groups:
        found = examine(copy, f"{namespace}/{group['metadata']['name']}", fix=fix)
        if found is not None:
            return _written(found, output)
    if job is None:
        raise UsageError(f"there is no job {name!r} in namespace {namespace}")
    phase = str(((job.get("status") or {}).get("state") or {}).get("phase") or "")
    return _without_group(name, phase, output)


def _groups(state: State, namespace: str) -> list[Json]:
    groups = [obj for _, obj in state.objects if obj.get("kind") == "PodGroup"]
    return [group for group in groups if (group["metadata"].get("namespace") or "default") == namespace]


def _belongs(group: Json, name: str, job: Json | None) -> bool:
    """Whether a pod group is that of a job."""
    meta = group["metadata"]
    owners = meta.get("ownerReferences") or ()
    uid = job["metadata"].get("uid", "") if job is not None else ""
    return any(o.get("kind") == "Job" and o.get("name") == name for o in owners) or meta["name"] in (
        f"{name}-{uid}",
        name if not owners else None,
    )


def _find(state: State, kind: str, namespace: str, name: str) -> Json | None:
    for _, obj in state.objects:
        meta = obj.get("metadata") or {}
        if obj.get("kind") == kind and meta.get("name") == name and (meta.get("namespace") or "default") == namespace:
            return obj
    return None


def _without_group(name: str, phase: str, output: str) -> str:
    text = f"job {name} is {phase or 'new'} and has no pod group"
    if phase in ("Completed", "Failed", "Terminated", "Aborted"):
        text += ": it has ended, nothing of it waits"
    found = {"key": name, "state": phase, "summary": text}
    return text if output == "table" else text_of(found, output)
