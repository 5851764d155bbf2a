"""``strato explain``: why something failed, is suspended or waits, and what would start it."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from strato.api.meta import Json
from strato.cli.connect import with_cluster
from strato.cli.inputs import INPUT_FILE
from strato.cli.output import output_option, text_of
from strato.cli.recordoptions import log_options
from strato.cli.statesource import StateSource
from strato.errors import Forbidden, StateError, UsageError, harmless

if TYPE_CHECKING:
    from strato.cli.reasons.facts import Facts
    from strato.cli.reasons.report import ReasonReport
    from strato.client.cluster import Cluster
    from strato.scheduler.dryrun.trial import Copy
    from strato.scheduler.reporting.explain import Diagnosis

_ALIASES = {
    "pod": ("pods", "po"),
    "job": ("jobs", "job.batch", "jobs.batch"),
    "vcjob": ("vcjobs", "vj", "job.batch.volcano.sh", "jobs.batch.volcano.sh"),
    "podgroup": ("podgroups", "pg"),
    "queue": ("queues", "q"),
    "jobflow": ("jobflows", "jf"),
    "cronjob": ("cronjobs", "cj", "cronvcjob", "cronvj", "cronjobs.batch.volcano.sh"),
    "deployment": ("deployments", "deploy"),
    "replicaset": ("replicasets", "rs"),
    "statefulset": ("statefulsets", "sts"),
    "daemonset": ("daemonsets", "ds"),
    "tfjob": ("tfjobs",),
    "pytorchjob": ("pytorchjobs",),
    "xgboostjob": ("xgboostjobs",),
    "paddlejob": ("paddlejobs",),
    "jaxjob": ("jaxjobs",),
    "mpijob": ("mpijobs",),
    "trainjob": ("trainjobs",),
}
_KINDS = {word: kind for kind, aliases in _ALIASES.items() for word in (kind, *aliases)}


@click.command()
@click.argument("target")
@click.option("-n", "--namespace", default="default", show_default=True, help="Namespace.")
@click.option("-f", "--filename", "paths", multiple=True, metavar="PATH", help="Take the state from manifests instead.")
@log_options
@click.option("--config", type=INPUT_FILE, default=None, help="The scheduler's configuration file.")
@click.option("--fix", is_flag=True, help="Search the smallest change that starts it now; each is tried on a copy.")
@output_option
@click.pass_context
def explain(
    ctx: click.Context,
    target: str,
    namespace: str,
    paths: tuple[str, ...],
    log_path: Path | None,
    at: str | None,
    config: Path | None,
    fix: bool,
    output: str,
) -> None:
    """Say why TARGET failed, is suspended or waits: pod/NAME, job/NAME, podgroup/NAME, queue/NAME and others.

    Why something failed or cannot start is found in its pods and in events. For what waits the scheduler's engine
    decides one cycle on a copy of the state, and says what held it back: the binding constraint first, with its
    numbers. Nothing is changed anywhere. Also jobflow/, cronjob/, deployment/, statefulset/, daemonset/ and
    replicaset/NAME, tfjob/NAME and other training jobs; a name alone is a pod's.
    """
    word, _, name = target.rpartition("/")
    kind = _KINDS.get((word or "pod").lower())
    if kind is None or not name:
        raise UsageError(f"{target!r}: write pod/NAME, job/NAME, podgroup/NAME, queue/NAME, …; see --help")
    if kind == "queue" and fix:
        raise UsageError("--fix looks for what starts one pod, job or pod group; name one of those in the queue")
    asking = _Asking(ctx, kind, name, namespace, StateSource(paths, config, log_path, at), fix)
    click.echo(harmless(asking.queue(output) if kind == "queue" else asking.answer(output)))


class _Asking:
    """One call of the command: looks for the reason in the objects; for what waits, asks the scheduler's engine."""

    def __init__(
        self,
        ctx: click.Context,
        kind: str,
        name: str,
        namespace: str,
        source: StateSource,
        fix: bool,
    ) -> None:
        self._ctx = ctx
        self._kind, self._name, self._namespace = kind, name, namespace
        self._source, self._fix = source, fix

    def queue(self, output: str) -> str:
        from strato.scheduler.dryrun.examine import examine_queue

        found = examine_queue(self._copy(), self._name)
        if found is None:
            raise StateError(f"there is no queue {self._name!r}")
        return found.render() if output == "table" else text_of(found.to_json(), output)

    def answer(self, output: str) -> str:
        from strato.cli.reasons.workloads import report_of

        is_live = self._source.is_cluster
        copy = None if is_live else self._copy()  # checks the manifests, so that their errors come first
        obj, facts = with_cluster(self._ctx, self._read) if is_live else self._read_files()
        try:
            report = report_of(obj, facts)
        except (AttributeError, KeyError, TypeError) as error:
            if is_live:
                raise
            what = f"{self._kind} {self._name!r}, or what belongs to it,"
            raise UsageError(f"{what} has a member that is not as Kubernetes writes it: {error}") from error
        found = None
        if report.waits:
            try:
                found = self._diagnosis(copy or self._copy(), _scheduled_as(obj, facts), report)
            except Forbidden as error:
                report = replace(report, notes=[*report.notes, f"the engine was not asked, as it needs more: {error}"])
        elif self._kind == "pod" and is_live and not report.code:
            found = self._choice(report)
        if output != "table":
            return text_of(_joined(report, found), output)
        text = _rendered(report, found)
        if found is not None and found.verdicts and not self._fix and not found.goes_on:
            text += f"\nnext: strato explain {self._kind}/{self._name}{self._where()} --fix"
        if self._fix and found is None:
            text += "\nnothing of it waits for the scheduler, so there is nothing for --fix to try"
        return text

    def _where(self) -> str:
        namespace = "" if self._namespace == "default" else f" -n {self._namespace}"
        return namespace + self._source.text()

    async def _read(self, cluster: Cluster) -> tuple[Json, Facts]:
        from strato.cli.reasons.reading import read

        return await read(cluster, self._kind, self._namespace, self._name)

    def _read_files(self) -> tuple[Json, Facts]:
        from strato.cli.reasons.facts import owned_by
        from strato.cli.reasons.reading import KINDS, facts_in

        objects = [obj for _, obj in self._state.objects if isinstance(obj.get("metadata"), dict)]
        for kind in KINDS[self._kind]:
            for obj in objects:
                meta = obj["metadata"]
                wanted = (kind.name, self._name, self._namespace)
                if (obj.get("kind"), meta.get("name"), meta.get("namespace") or "default") == wanted:
                    return obj, facts_in(objects)
        facts = facts_in(objects)
        owner = {
            "kind": "Job",
            "metadata": {"name": self._name, "namespace": self._namespace},
        }  # a file may hold the pod group and leave out its job
        for group in owned_by(facts.groups, owner) if self._kind in ("job", "vcjob") else ():
            return group, facts
        raise StateError(f"there is no {self._kind} {self._name!r} in namespace {self._namespace}")

    def _copy(self) -> Copy:
        from strato.cli import states

        self._state, copy = states.copy_for(self._ctx, self._source)
        return copy

    def _diagnosis(self, copy: Copy, keys: Sequence[str], report: ReasonReport) -> Diagnosis | None:
        """Return the engine's diagnosis of the first of the keys that it knows."""
        from strato.scheduler.dryrun.examine import examine

        found = next((one for one in (examine(copy, key, fix=self._fix) for key in keys) if one is not None), None)
        return found and replace(found, key=report.key, state=report.state)

    def _choice(self, report: ReasonReport) -> Diagnosis | None:
        """Return the arcs and prices by which the flow action placed a pod; None when it did not place it."""
        from strato.cli import states
        from strato.scheduler.model.reasons import Verdict
        from strato.scheduler.reporting.explain import Diagnosis

        choice = functools.partial(states.choice_of, namespace=self._namespace, pod=self._name)
        chosen = with_cluster(self._ctx, choice)
        verdicts = (Verdict("flow", "FlowChoice", chosen),)
        return Diagnosis(report.key, report.state, report.summary, verdicts, goes_on=True) if chosen else None


def _scheduled_as(obj: Json, facts: Facts) -> list[str]:
    """Return the keys of the pod groups and pods as which an object is scheduled, in the order to try them."""
    from strato.cli.reasons.facts import owned_by

    namespace = obj["metadata"].get("namespace") or "default"
    if obj["kind"] in ("Pod", "PodGroup"):
        return [f"{namespace}/{obj['metadata']['name']}"]
    groups = owned_by(facts.groups, obj) or [
        g for g in facts.groups if g["metadata"]["name"] == obj["metadata"]["name"]
    ]
    sets = owned_by(facts.replica_sets, obj)
    waiting = [name for name, reason in facts.reasons_of(facts.pods_of(obj, *sets)).items() if reason.waits]
    return [f"{namespace}/{name}" for name in (*(group["metadata"]["name"] for group in groups), *waiting)]


def _rendered(report: ReasonReport, found: Diagnosis | None) -> str:
    from strato.cli.reasons.pods import hint_of

    if found is None:
        return report.render()
    if report.stuck:
        waiting = [f"  those that wait: {found.summary}", *found.render().splitlines()[1:]]
        return "\n".join([report.render(), *waiting])
    hints = [hint for hint in (*report.hints, hint_of(found.summary)) if hint]
    further = [f"  {note}" for note in report.notes] + [f"next: {hint}" for hint in hints]
    return "\n".join([found.render(), *further])


def _joined(report: ReasonReport, found: Diagnosis | None) -> Json:
    return report.to_json() if found is None else {**report.to_json(), **found.to_json()}
