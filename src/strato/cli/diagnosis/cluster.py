"""Judge a cluster: versions of server and client, clock, definitions, webhooks, leases of the components."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from strato.api import trainingkinds
from strato.api.meta import Json as Json
from strato.cli.diagnosis.findings import CheckResult, problem, warning
from strato.clock import format_time

OLDEST_MINOR = 30
"""Minor version of the oldest Kubernetes, 1.30, that supports every CEL rule of our definitions."""
SECONDS_PER_DAY = 86400
WARN_DAYS = 30
_SKEW_SECONDS = 5.0
_BAD_SKEW_SECONDS = 60.0
_SHOWN = 4
_KUBECTL_SKEW = 1
"""How many minor versions kubectl may be away from the server, by Kubernetes' own rule."""


@dataclass(frozen=True, slots=True)
class WebhookFacts:
    """One webhook configuration of Strato's, as the cluster has it."""

    name: str
    has_bundle: bool = True
    bundle_ends: float | None = None
    """When the first certificate of its ``caBundle`` ends; None when that cannot be read."""
    blocks: bool = True
    """Whether its failurePolicy is Fail: requests fail while the webhook does not answer."""


@dataclass(frozen=True, slots=True)
class LeaseFacts:
    """The Lease of one component."""

    holder: str
    silent_seconds: float
    """Seconds since the holder last renewed it."""
    duration_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFacts:
    """Facts read from a cluster. A field is None when it was not read, or when the user may not read it."""

    address: str = ""
    named_by: str = ""
    strato: str = ""
    """Version of the Strato that runs this command."""
    kubectl: str = ""
    """Version of the system's kubectl, empty when there is none."""
    refusal: str = ""
    """Why the cluster did not answer at all; empty when it did."""
    version: str = ""
    """The server's ``gitVersion``."""
    skew_seconds: float | None = None
    """How far the server's clock is ahead of this machine's."""
    certificate_ends: float | None = None
    """When the user's client certificate ends; None when the kubeconfig has none."""
    now: float = 0.0
    definitions: Mapping[str, Json | None] | None = None
    """Custom resource definitions by name, as the server has them; None for one that it lacks."""
    expected: Mapping[str, Json] = field(default_factory=dict)
    """The definitions by name as this version of Strato generates them."""
    off: Sequence[str] = ()
    """Kinds of training jobs that the installation leaves out; the server has no definition of them."""
    webhooks: Sequence[WebhookFacts] | None = None
    expected_webhooks: Sequence[str] = ()
    webhook_error: str = ""
    """The server's answer to the dry-run create request, when it says that a webhook did not answer."""
    queues: Mapping[str, str] | None = None
    """State of each queue by its name."""
    leases: Mapping[str, LeaseFacts] | None = None
    """Lease of each component."""
    forbidden: Sequence[str] = ()
    """Plural names of the kinds that this user may not list."""

    @property
    def is_embedded(self) -> bool:
        """Whether the server is Strato's embedded one, which has the definitions built in and needs no webhook."""
        return "+strato" in self.version

    @property
    def minor(self) -> int:
        """Kubernetes' minor version, 0 when it cannot be read."""
        return minor_of(self.version)


def minor_of(version: str) -> int:
    """Return the minor version of ``v1.30.2-gke.1``, 0 when it cannot be read."""
    parts = version.removeprefix("v").split(".")
    return int(parts[1]) if len(parts) > 1 and parts[0] == "1" and parts[1].isdecimal() else 0


def findings(facts: ClusterFacts) -> Iterator[CheckResult]:
    """Judge all facts; for a cluster that did not answer, report only that."""
    if facts.refusal:
        todo = f"check {facts.named_by}, or name another cluster with --kubeconfig FILE or --master URL"
        yield problem("cluster", f"{facts.address}: {facts.refusal}", todo)
        return
    yield CheckResult("cluster", f"{facts.address} answers, named by {facts.named_by}")
    yield _version(facts)
    if facts.kubectl:
        yield from _kubectl(facts)
    if facts.certificate_ends is not None:
        yield _certificate(facts)
    if facts.skew_seconds is not None:
        yield _clock(facts.skew_seconds)
    if not facts.is_embedded:
        yield from _definitions(facts)
        yield from _webhooks(facts)
        yield from _leaders(facts)
    if facts.off:
        yield _off(facts)
    yield from _queues(facts)
    for what in facts.forbidden:
        todo = f"kubectl auth can-i list {what}; ask who runs the cluster, or use another --context"
        yield warning("rights", f"you may not list {what}: nothing is known of them", todo)


def _version(facts: ClusterFacts) -> CheckResult:
    check = "server version"
    if facts.is_embedded:
        theirs = facts.version.partition("+strato")[2]
        if theirs != facts.strato:
            what = f"the cluster runs strato {theirs}, this command is {facts.strato}"
            return problem(check, what, "strato down; strato up")
        return CheckResult(check, f"{facts.version}, the version of this command")
    if facts.minor and facts.minor < OLDEST_MINOR:
        what = f"Kubernetes {facts.version}: before 1.{OLDEST_MINOR} definitions go without their rules in CEL"
        return warning(check, what, f"upgrade to 1.{OLDEST_MINOR} or newer; until then keep the webhook running")
    return CheckResult(check, f"Kubernetes {facts.version}")


def _kubectl(facts: ClusterFacts) -> Iterator[CheckResult]:
    ours, theirs = minor_of(facts.kubectl), facts.minor
    if not (ours and theirs) or facts.is_embedded:  # the embedded server's tests include old kubectls
        return
    if abs(ours - theirs) > _KUBECTL_SKEW:
        what = f"{facts.kubectl} is more than {_KUBECTL_SKEW} minor version from the server's 1.{theirs}"
        yield warning("kubectl", what, f"install kubectl 1.{theirs}: https://kubernetes.io/docs/tasks/tools")


def _certificate(facts: ClusterFacts) -> CheckResult:
    check = "kubeconfig"
    ends = facts.certificate_ends or 0.0
    days = (ends - facts.now) / SECONDS_PER_DAY
    if days < 0:
        return problem(check, f"your client certificate ended {format_time(ends)}", "get a new kubeconfig")
    if days < WARN_DAYS:
        return warning(check, f"your client certificate ends {format_time(ends)}", "get a new kubeconfig before")
    return CheckResult(check, f"your client certificate is good for {days:.0f} days")


def _clock(skew_seconds: float) -> CheckResult:
    check = "clock"
    if abs(skew_seconds) <= _SKEW_SECONDS:
        return CheckResult(check, "the same on both sides")
    side = "ahead of" if skew_seconds > 0 else "behind"
    what = f"the server's is {_spoken(abs(skew_seconds))} {side} this machine's: leases and certificates go by it"
    make = problem if abs(skew_seconds) > _BAD_SKEW_SECONDS else warning
    return make(check, what, "on the side that is wrong: timedatectl set-ntp true")


def _spoken(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def _definitions(facts: ClusterFacts) -> Iterator[CheckResult]:
    check, todo = "definitions", "strato install --only crds"
    if facts.definitions is None:
        return
    missing = [name for name in facts.expected if facts.definitions.get(name) is None]
    if len(missing) == len(facts.expected):
        yield problem(check, "none is installed: jobs and queues cannot be created", "strato install")
        return
    if missing:
        yield problem(check, f"missing: {', '.join(missing)}", todo)
    sound = 0
    for name, wanted in facts.expected.items():
        found = facts.definitions.get(name)
        if found is None:
            continue
        wrong = judge_definition(name, found, wanted)
        sound += wrong is None
        if wrong is not None:
            yield wrong
    if sound:
        yield CheckResult(check, f"{sound} of {len(facts.expected)} are as this version makes them")


def _off(facts: ClusterFacts) -> CheckResult:
    """Name the kinds that are off, as a sound finding, since the installation chose to leave them out."""
    if facts.is_embedded:
        how = f"strato down; strato up --training-kinds={trainingkinds.ALL}"
    else:
        how = "strato install " + " ".join(f"--set {trainingkinds.value_of(name)}=true" for name in facts.off)
    what = f"off: {', '.join(facts.off)} (kubectl answers: no matches for kind); to have them: {how}"
    return CheckResult("training jobs", what)


def judge_definition(name: str, found: Json, wanted: Json) -> CheckResult | None:
    """Return the finding about a definition as the server has it; None if it is in order."""
    check, todo = "definitions", "strato install --only crds"
    if found.get("metadata", {}).get("deletionTimestamp"):
        what = f"{name} is being deleted, with all its objects"
        return problem(check, what, f"wait until it is gone: kubectl get crd {name}; then {todo}")
    conditions = {one.get("type"): one for one in found.get("status", {}).get("conditions") or ()}
    for kind in ("NamesAccepted", "Established"):
        if conditions.get(kind, {}).get("status") == "False":
            return problem(check, f"{name} is not served: {conditions[kind].get('message', kind)}", todo)
    wanted_version = wanted["spec"]["versions"][0]
    versions = {one["name"]: one for one in found.get("spec", {}).get("versions") or ()}
    theirs = versions.get(wanted_version["name"])
    if theirs is None or not theirs.get("served"):
        return problem(check, f"{name} does not serve version {wanted_version['name']}", todo)
    ours_schema = wanted_version["schema"]["openAPIV3Schema"]
    theirs_schema = theirs.get("schema", {}).get("openAPIV3Schema") or {}
    fields = list(_lacking(ours_schema, theirs_schema, ""))
    if fields:
        shown = ", ".join(fields[:_SHOWN]) + (f" and {len(fields) - _SHOWN} more" if len(fields) > _SHOWN else "")
        return problem(check, f"{name} is of an older version: it drops {shown}", todo)
    if rules := _rules(ours_schema) - _rules(theirs_schema):
        what = f"{name} lacks {len(rules)} rules that refuse bad objects without the webhook"
        return warning(check, what, todo)
    return None


def _lacking(ours: Json, theirs: Json, path: str) -> Iterator[str]:
    """Yield the fields that the server's schema prunes and ours keeps; of nested ones the outermost."""
    if theirs.get("x-kubernetes-preserve-unknown-fields"):
        return
    known = theirs.get("properties") or {}
    for name, schema in (ours.get("properties") or {}).items():
        place = f"{path}.{name}".removeprefix(".")
        if name in known:
            yield from _lacking(schema, known[name], place)
        else:
            yield place
    for inner in ("items", "additionalProperties"):
        mine, other = ours.get(inner), theirs.get(inner)
        if isinstance(mine, dict) and isinstance(other, dict):
            yield from _lacking(mine, other, path)


def _rules(schema: Json) -> set[str]:
    from strato.api.crds.rules import all_rules

    return {rule["rule"] for rule in all_rules(schema)}


def _webhooks(facts: ClusterFacts) -> Iterator[CheckResult]:
    check = "webhooks"
    if facts.webhook_error:
        what = f"a creation that only pretends was answered: {facts.webhook_error}"
        yield problem(
            check,
            what,
            "kubectl -n volcano-system get pods,endpoints; kubectl -n volcano-system logs deployment/volcano-admission",
        )
    if facts.webhooks is None:
        return
    there = {hook.name for hook in facts.webhooks}
    missing = [name for name in facts.expected_webhooks if name not in there]
    if not there:
        what = "none is registered: only the rules of the definitions refuse bad objects"
        yield warning(check, what, "strato install --only admission")
        return
    if missing:
        yield warning(check, f"not registered: {', '.join(missing)}", "strato install --only admission")
    bad = [finding for hook in facts.webhooks if (finding := judge_webhook(hook, facts.now))]
    yield from bad
    if not (bad or missing or facts.webhook_error):
        yield CheckResult(check, f"{len(there)} registered, their certificates are good")


def judge_webhook(hook: WebhookFacts, now: float) -> CheckResult | None:
    """Return the finding about a webhook configuration; None if it is in order."""
    check, todo = "webhooks", "kubectl -n volcano-system rollout restart deployment volcano-admission"
    effect = "what it judges cannot be written" if hook.blocks else "nothing is judged by it"
    if not hook.has_bundle:
        return problem(check, f"{hook.name} has no caBundle yet: {effect}", todo)
    if hook.bundle_ends is None:
        return problem(check, f"{hook.name}: its caBundle is no certificate: {effect}", todo)
    days = (hook.bundle_ends - now) / SECONDS_PER_DAY
    if days < 0:
        return problem(check, f"{hook.name}: its CA expired {format_time(hook.bundle_ends)}: {effect}", todo)
    if days < WARN_DAYS:
        return warning(check, f"{hook.name}: its CA ends {format_time(hook.bundle_ends)}", todo)
    return None


def _leaders(facts: ClusterFacts) -> Iterator[CheckResult]:
    if facts.leases is None:
        return
    for component, command in (("scheduler", "scheduler"), ("controllers", "controllers")):
        lease = facts.leases.get(component)
        if lease is None:
            what = f"no {component} of ours has ever led here"
            yield warning(component, what, f"strato install; or from this machine: strato run {command}")
        elif not lease.holder or lease.silent_seconds > lease.duration_seconds:
            who = lease.holder or "its last leader"
            what = f"{who} has been silent for {_spoken(lease.silent_seconds)}: nothing of it is done"
            todo = f"kubectl -n volcano-system get pods; kubectl -n volcano-system logs deployment/volcano-{component}"
            yield problem(component, what, todo)
        else:
            yield CheckResult(component, f"{lease.holder} leads")


def _queues(facts: ClusterFacts) -> Iterator[CheckResult]:
    if facts.queues is None:
        return
    state = facts.queues.get("default")
    if state is None:
        what = "there is no queue 'default': jobs that name no queue wait"
        yield problem("queues", what, "start the controllers, which make it; or: strato queue create -n default")
    elif state not in ("", "Open"):
        yield warning("queues", f"queue 'default' is {state}: its jobs wait", "strato queue operate -n default -a open")
    else:
        yield CheckResult("queues", f"{len(facts.queues)}, 'default' among them")
