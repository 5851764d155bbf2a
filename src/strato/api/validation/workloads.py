"""Rules of workloads: apps/v1, batch/v1, replication controllers."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from strato.api import names
from strato.api.meta import Json
from strato.api.selectors import InvalidSelector, from_label_selector
from strato.api.shapes import LabelSelector, LabelSelectorRequirement
from strato.api.status import invalid_value, invalid_values, not_supported, required
from strato.api.validation.metadata import immutable, validate_labels
from strato.api.validation.podspec import validate_template
from strato.errors import Cause


def selector_matches(selector: Json, labels: Json) -> bool:
    """Whether a label selector (plain JSON) selects these labels; an unreadable one selects nothing."""
    view = LabelSelector(
        match_labels=selector.get("matchLabels") or {},
        match_expressions=tuple(
            LabelSelectorRequirement(
                key=item.get("key") or "", operator=item.get("operator") or "", values=tuple(item.get("values") or ())
            )
            for item in selector.get("matchExpressions") or ()
        ),
    )
    try:
        return from_label_selector(view).matches(labels)
    except InvalidSelector:
        return False


def validate_workload(obj: Json) -> list[Cause]:
    """Check selector, replicas and template of a Deployment, ReplicaSet, StatefulSet or DaemonSet."""
    spec = obj.get("spec") or {}
    causes: list[Cause] = []
    replicas = spec.get("replicas")
    if replicas is not None and replicas < 0:
        causes.append(invalid_value("spec.replicas", replicas, "must be greater than or equal to 0"))
    if service := spec.get("serviceName"):  # of a StatefulSet
        causes += invalid_values("spec.serviceName", service, names.check_label(service))
    template, selector, kind = spec.get("template") or {}, spec.get("selector"), obj.get("kind")
    if selector is None:
        missing = [] if kind == "DaemonSet" else [required("spec.selector")]
        return [*causes, *missing, *_template_problems(template, fits=False)]
    if not (selector.get("matchLabels") or selector.get("matchExpressions")):
        noun = _EMPTY_FOR.get(str(kind), "deployment")
        causes.append(invalid_value("spec.selector", {}, f"empty selector is invalid for {noun}"))
        return causes + _template_problems(template, fits=True)
    malformed: list[Cause] = []
    validate_labels(selector.get("matchLabels") or {}, "spec.selector.matchLabels", malformed)
    if not malformed:
        return causes + _template_problems(template, selector_matches(selector, _labels(template)))
    if kind == "DaemonSet":
        return [*causes, *malformed, *_template_problems(template, fits=True)]
    text = "" if kind == "StatefulSet" else "invalid label selector"
    return [*causes, *malformed, invalid_value("spec.selector", selector, text)]


_EMPTY_FOR = {"StatefulSet": "statefulset", "DaemonSet": "daemonset"}
"""What Kubernetes calls the kinds whose selector is empty; ReplicaSets are deployments to it."""


def validate_replication_controller(obj: Json) -> list[Cause]:
    """Check a ReplicationController, whose selector is a map of labels and may change."""
    spec = obj.get("spec") or {}
    causes = [
        invalid_value(f"spec.{member}", spec[member], "must be greater than or equal to 0")
        for member in ("minReadySeconds", "replicas")
        if (spec.get(member) or 0) < 0
    ]
    selector = spec.get("selector")
    if not selector:
        causes.append(required("spec.selector"))
    if not spec.get("template"):
        return [*causes, required("spec.template")]
    fits = not selector or selector.items() <= _labels(spec["template"]).items()
    return causes + _template_problems(spec["template"], fits)


def _labels(template: Json) -> Json:
    return (template.get("metadata") or {}).get("labels") or {}


def _unmatched(labels: Json) -> Cause:
    text = "`selector` does not match template `labels`"
    return invalid_value("spec.template.metadata.labels", labels or None, text)


def _template_problems(template: Json, fits: bool) -> list[Cause]:
    """Return the problems of the template of pods that run for ever; ``fits``: whether the selector selects them."""
    causes = [] if fits else [_unmatched(_labels(template))]
    causes += validate_template(template, "spec.template")
    policy = (template.get("spec") or {}).get("restartPolicy")
    if policy and policy != "Always":
        causes.append(not_supported("spec.template.spec.restartPolicy", policy, ("Always",)))
    return causes


def fixed_selector(validate: Callable[[Json], list[Cause]]) -> Callable[[Json, Json], list[Cause]]:
    """Return the update rule of kinds whose selector may not change."""

    def check(obj: Json, old: Json) -> list[Cause]:
        new_spec, old_spec = obj.get("spec") or {}, old.get("spec") or {}
        if new_spec == old_spec:
            return []
        causes = validate(obj)
        if new_spec.get("selector") != old_spec.get("selector"):
            causes.append(immutable("spec.selector", new_spec.get("selector")))
        return causes

    return check


def validate_revision(obj: Json) -> list[Cause]:
    """Check a ControllerRevision, which keeps a state of a StatefulSet or DaemonSet."""
    causes = [required("data", "data is mandatory")] if obj.get("data") is None else []
    revision = obj.get("revision") or 0
    if revision < 0:
        causes.append(invalid_value("revision", revision, "must be greater than or equal to 0"))
    return causes


def validate_revision_update(obj: Json, old: Json) -> list[Cause]:
    """Check a ControllerRevision, whose state may not change."""
    changed = obj.get("data") != old.get("data")
    return [*validate_revision(obj), *([immutable("data", obj.get("data"))] if changed else [])]


def validate_job(obj: Json) -> list[Cause]:
    """Check a Kubernetes Job."""
    spec = obj.get("spec") or {}
    causes = [
        invalid_value(f"spec.{member}", spec[member], "must be greater than or equal to 0")
        for member in ("parallelism", "completions", "backoffLimit", "activeDeadlineSeconds", "ttlSecondsAfterFinished")
        if (spec.get(member) or 0) < 0
    ]
    return causes + _finite_template_problems(spec.get("template") or {}, "spec.template")


def validate_job_name(obj: Json) -> list[Cause]:
    """Check that the pods of an indexed Job, whose names end in their index, can have their names as hostnames."""
    name, spec = obj["metadata"].get("name") or "", obj.get("spec") or {}
    if spec.get("completionMode") != "Indexed" or (spec.get("completions") or 0) < 1:
        return []
    last = f"{name}-{spec['completions'] - 1}"
    if names.is_label(last):
        return []
    return [invalid_value("metadata.name", name, f"will not able to create pod with invalid DNS label: {last}")]


def _finite_template_problems(template: Json, field: str) -> list[Cause]:
    """Return the problems of the template of pods that come to an end."""
    causes = validate_template(template, field)
    if (template.get("spec") or {}).get("restartPolicy") == "Always":
        causes.append(required(f"{field}.spec.restartPolicy", 'valid values: "OnFailure", "Never"'))
    return causes


def validate_cron_job(obj: Json) -> list[Cause]:
    """Check a Kubernetes CronJob: its schedule, its policy and the pods it will make."""
    spec = obj.get("spec") or {}
    causes = _schedule_problems(spec.get("schedule") or "")
    zone = spec.get("timeZone")
    if zone is not None and not _is_zone(zone):
        causes.append(invalid_value("spec.timeZone", zone, f"unknown time zone {zone}"))
    policy = spec.get("concurrencyPolicy")
    if policy not in ("Allow", "Forbid", "Replace"):
        causes.append(not_supported("spec.concurrencyPolicy", policy or "", ("Allow", "Forbid", "Replace")))
    job = (spec.get("jobTemplate") or {}).get("spec") or {}
    return causes + _finite_template_problems(job.get("template") or {}, "spec.jobTemplate.spec.template")


def _schedule_problems(schedule: str) -> list[Cause]:
    if not schedule:
        return [required("spec.schedule")]
    if schedule.startswith("@"):
        return []
    fields = schedule.split()
    if len(fields) != _SCHEDULE_FIELDS:
        text = f"expected exactly 5 fields, found {len(fields)}: [{' '.join(fields)}]"
        return [invalid_value("spec.schedule", schedule, text)]
    from cronsim import CronSim, CronSimError  # imported here, because only cron jobs need it

    try:
        CronSim(schedule.replace("?", "*"), datetime(2024, 1, 1, tzinfo=UTC))
    except CronSimError as error:
        return [invalid_value("spec.schedule", schedule, str(error))]
    return []


def _is_zone(name: str) -> bool:
    """Return whether a time zone is one of IANA's; names of the machine's local zone are not."""
    try:
        return bool(name) and name.lower() != "local" and ZoneInfo(name) is not None
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return False


_SCHEDULE_FIELDS = 5


def validate_job_update(obj: Json, old: Json) -> list[Cause]:
    """Check a Job, of which completions, selector and template may not change."""
    new_spec, old_spec = obj.get("spec") or {}, old.get("spec") or {}
    if new_spec == old_spec:
        return []
    causes, selector = validate_job(obj), new_spec.get("selector")
    labels = _labels(new_spec.get("template") or {})
    if selector is None:
        causes.append(required("spec.selector"))
    if selector is None or not selector_matches(selector, labels):
        causes.append(_unmatched(labels))
    fixed = ["selector", "template", "completionMode", "podFailurePolicy", "successPolicy", "backoffLimitPerIndex"]
    fixed.append("managedBy")
    elastic = new_spec.get("completionMode") == "Indexed" and old_spec.get("completions") == old_spec.get("parallelism")
    if not elastic or new_spec.get("completions") != new_spec.get("parallelism"):
        fixed.insert(0, "completions")
    held = old_spec.get("suspend") and not (old.get("status") or {}).get("startTime")
    return causes + [
        immutable(f"spec.{member}", new_spec.get(member))
        for member in fixed
        if new_spec.get(member) != old_spec.get(member)
        and not (member == "template" and held and _unplaced(new_spec[member]) == _unplaced(old_spec[member]))
    ]


def _unplaced(template: Json) -> Json:
    """Return a template without its scheduling members, which a queueing system may change while a job is suspended."""
    placing = ("nodeSelector", "tolerations", "affinity", "schedulingGates")
    return {member: value for member, value in template["spec"].items() if member not in placing}
