"""Reads the file of an experiment (nodes, services, trainings, variants) strictly; reports all problems together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from strato.agent.options import between, read_options
from strato.agent.policy import KEY as POLICY_KEY
from strato.agent.policy import AgentPolicy, read_policy
from strato.agent.registry import HandlerRegistry
from strato.api import names, quantity
from strato.api.configtext import read_mapping
from strato.api.cpudemand import InvalidDemand, Traces, read_demand
from strato.errors import InvalidInput, Problem, UsageError, called, nearest
from strato.node.shapes import NodeShape, parse_nodes
from strato.sim.utilisation.usetraces import TraceOptions, read_use_trace

T = TypeVar("T")
ROLES: Final = ("chief", "ps", "worker", "evaluator")
"""The roles of a training's pods, which are those of a TFJob."""
WORKING: Final = ("chief", "worker")
"""Roles whose pods end when the work is done; the others run until their job ends."""
_SECTIONS: Final = ("hours", "warmUpHours", "nodes", "services", "trainings", "variants", "traces", "policy")
_MOST_PODS: Final = 20_000
_MOST_BYTES: Final = 1 << 18


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """How long to simulate; the simulation begins at midnight UTC."""

    hours: float = 24.0
    """Time that is measured. Range [0.1, 744]."""
    warm_up_hours: float = 3.0
    """Time before that, in which an empty cluster fills. Range [0, 48]."""

    def problems(self) -> list[tuple[str, str]]:
        """Return field and problem of each value out of range."""
        return list(between(self, {"hours": (0.1, 744), "warm_up_hours": (0, 48)}))


@dataclass(frozen=True, slots=True, kw_only=True)
class PodOptions:
    """Requests and CPU demand of each pod of a service or role."""

    replicas: int = 1
    cpu: str = "1"
    """CPU request."""
    cpu_limit: str = ""
    """CPU limit; empty for none."""
    memory: str = "1Gi"
    """Memory request."""
    demand: str = ""
    """Demand in cores over time; see `strato.api.cpudemand.read_demand`. Required."""
    sets_pace: bool = False
    """Whether the other pods of the job work only as fast as this one's quota allows it to work."""

    def problems(self) -> list[tuple[str, str]]:
        """Return field and problem of each value out of range or that is no quantity."""
        found = list(between(self, {"replicas": (1, 1000)}))
        for name in ("cpu", "cpu_limit", "memory"):
            text = getattr(self, name)
            if text or name != "cpu_limit":
                complaint = _amount_problem(text)
                if complaint:
                    found.append((name, complaint))
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class OnlineService(PodOptions):
    """Online pods that run all the time."""

    name: str = ""
    """Required."""
    priority: int = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class KindOptions:
    """One kind of training. Its run times, with all the CPU that it demands, are drawn from a lognormal."""

    name: str = ""
    """Required."""
    share: float = 1.0
    """Weight of this kind among all kinds when a training is drawn."""
    priority: int = 100
    median_minutes: float = 60.0
    spread: float = 0.5
    """Standard deviation of the logarithm of run times. Range [0, 3]."""
    most_minutes: float = 600.0
    """Upper bound of run times."""

    def problems(self) -> list[tuple[str, str]]:
        """Return field and problem of each value out of range."""
        limits: dict[str, tuple[float, float]] = {"share": (0, 1e6), "median_minutes": (0.1, 1e5), "spread": (0, 3)}
        limits["most_minutes"] = (self.median_minutes, 1e6)
        limits["priority"] = (-1e9, 1e9)
        return list(between(self, limits))


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingKind(KindOptions):
    """One kind of training with its roles."""

    roles: Mapping[str, PodOptions]

    @property
    def pods(self) -> int:
        """Number of pods of one training."""
        return sum(role.replicas for role in self.roles.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrivalOptions:
    """When trainings are submitted: independently of each other, at a rate that follows the hour of the day."""

    per_day: int = 200
    peak_hour: float = 12.0
    """Hour of the highest rate, UTC."""
    peak_ratio: float = 0.0
    """By which share of the mean the rate is higher at the peak, and lower twelve hours later. Range [0, 1]."""
    give_up_minutes: float = 0.0
    """Time after which a training that has not begun is deleted, as its user would do; 0 is never."""

    def problems(self) -> list[tuple[str, str]]:
        """Return field and problem of each value out of range."""
        return list(
            between(
                self, {"per_day": (0, 100_000), "peak_hour": (0, 24), "peak_ratio": (0, 1), "give_up_minutes": (0, 1e6)}
            )
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantOptions:
    """What a variant switches on."""

    gang: bool = False
    """Places all pods of a training or none; otherwise pods are placed one by one."""
    overcommit: bool = False
    """Nodes offer more CPU than they have, by their factors of overcommitment."""
    suppression: bool = False
    """Runs the agents' handler ``suppress``."""
    burst: bool = False
    """Runs the agents' handler ``burst``."""


@dataclass(frozen=True, slots=True)
class Experiment:
    """The content of an experiment's file."""

    times: Times
    nodes: tuple[NodeShape, ...]
    services: tuple[OnlineService, ...]
    arrivals: ArrivalOptions
    kinds: tuple[TrainingKind, ...]
    variants: Mapping[str, VariantOptions]
    policy_text: Mapping[str, Any] = field(default_factory=dict)
    """The agents' policy, as the file has it."""
    traces: Traces = field(default_factory=dict)

    def policy_of(self, variant: VariantOptions) -> AgentPolicy | None:
        """Return the policy of a variant's agents; None if the variant has no agents."""
        return _policy(self.policy_text, variant)


def read_experiment(path: Path) -> Experiment:
    """Read an experiment.

    Raises:
        UsageError: The file cannot be read.
        InvalidInput: The file has problems; all are listed with their places.
    """
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise UsageError(f"{path} is longer than {_MOST_BYTES} bytes, which no experiment needs")
        text = path.read_text()
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8 text (byte {error.start})") from error
    return parse_experiment(text, str(path), path.parent)


def parse_experiment(text: str, name: str, folder: Path) -> Experiment:
    """Read an experiment's text.

    Args:
        text: The content of the file, in YAML.
        name: The file's name, for errors.
        folder: The folder in which the traces are that the text names.

    Raises:
        InvalidInput: The text has problems; all are listed with their places.
    """
    reader = _Reader(read_mapping(text, name), folder)
    experiment = reader.read()
    if reader.problems:
        raise InvalidInput(name, reader.problems)
    return experiment


class _Reader:
    """Reads one document. It collects problems, and takes defaults in place of wrong values."""

    def __init__(self, document: Mapping[str, Any], folder: Path) -> None:
        self._document, self._folder = document, folder
        self.problems: list[Problem] = []
        self._traces: dict[str, Any] = {}
        self._unread: set[str] = set()
        """Names of traces that have a problem, so that values which name them are not reported too."""

    def read(self) -> Experiment:
        document = self._document
        for key in document:
            if key not in _SECTIONS:
                self._note(str(key), f"no such key{nearest(str(key), _SECTIONS)}")
        times = self._options(Times(), {key: document[key] for key in ("hours", "warmUpHours") if key in document}, "")
        self._read_traces()
        nodes = self._nodes()
        services = [self._service(one, f"services[{number}]") for number, one in enumerate(self._list("services"))]
        arrivals, kinds = self._trainings()
        self._check_names("services", [one.name for one in services])
        self._check_names("trainings.kinds", [one.name for one in kinds])
        variants = self._variants()
        policy = self._mapping("policy", document.get("policy"))
        for variant in (VariantOptions(suppression=True, burst=True), VariantOptions(suppression=True)):
            try:
                _policy(policy, variant)
            except InvalidInput as error:
                self.problems += [Problem(f"policy.{one.where}", one.message) for one in error.problems]
                break
        pods = sum(one.replicas for one in services)
        if pods > _MOST_PODS:
            self._note("services", f"{pods} pods are more than {_MOST_PODS}")
        if not services and not (kinds and arrivals.per_day):
            self._note("", "there is nothing to run; give services, or trainings with kinds")
        return Experiment(times, nodes, tuple(services), arrivals, kinds, variants, policy, self._traces)

    def _nodes(self) -> tuple[NodeShape, ...]:
        text = self._document.get("nodes")
        if not isinstance(text, str):
            self._note("nodes", f"must be text such as 12x24cpu,128Gi,overcommit=2, not {called(text)}")
            return ()
        try:
            return parse_nodes(text)
        except InvalidInput as error:
            self.problems += [Problem(f"nodes: {one.where}", one.message) for one in error.problems]
            return ()

    def _read_traces(self) -> None:
        given = self._mapping("traces", self._document.get("traces"))
        for name, value in given.items():
            where = f"traces.{name}"
            options = self._options(TraceOptions(), value, where)
            try:
                self._traces[name] = read_use_trace(self._folder, options)
            except InvalidInput as error:
                self.problems += [Problem(f"{where}.file: {one.where}", one.message) for one in error.problems]
                self._unread.add(name)
            except UsageError as error:
                self._note(f"{where}.file", str(error))
                self._unread.add(name)

    def _service(self, value: Any, where: str) -> OnlineService:
        service = self._options(OnlineService(), value, where)
        self._check_name(service.name, f"{where}.name")
        self._check_demand(service.demand, f"{where}.demand")
        return service

    def _trainings(self) -> tuple[ArrivalOptions, tuple[TrainingKind, ...]]:
        given = self._mapping("trainings", self._document.get("trainings"))
        own = {key: value for key, value in given.items() if key != "kinds"}
        arrivals = self._options(ArrivalOptions(), own, "trainings")
        listed = given.get("kinds", [])
        if not isinstance(listed, list):
            self._note("trainings.kinds", f"must be a list, not {called(listed)}")
            listed = []
        kinds = tuple(self._kind(one, f"trainings.kinds[{number}]") for number, one in enumerate(listed))
        if arrivals.per_day and kinds and not sum(kind.share for kind in kinds):
            self._note("trainings.kinds", "all shares are 0; let one be more")
        return arrivals, kinds

    def _kind(self, value: Any, where: str) -> TrainingKind:
        given = self._mapping(where, value)
        options = self._options(KindOptions(), {key: one for key, one in given.items() if key != "roles"}, where)
        self._check_name(options.name, f"{where}.name")
        roles = {}
        for role, one in self._mapping(f"{where}.roles", given.get("roles")).items():
            if role not in ROLES:
                self._note(f"{where}.roles.{role}", f"no such role{nearest(role, ROLES)}")
                continue
            roles[role] = self._options(PodOptions(), one, f"{where}.roles.{role}")
            self._check_demand(roles[role].demand, f"{where}.roles.{role}.demand")
        if roles.get("chief", PodOptions()).replicas != 1:
            self._note(f"{where}.roles.chief.replicas", "must be 1: a job has one chief")
        if not any(role in WORKING for role in roles):
            self._note(f"{where}.roles", f"needs one whose work ends: {' or '.join(WORKING)}")
        return TrainingKind(**{name: getattr(options, name) for name in KindOptions.__dataclass_fields__}, roles=roles)

    def _variants(self) -> dict[str, VariantOptions]:
        given = self._document.get("variants", {"all": {"gang": True, "overcommit": True, "suppression": True}})
        found = {
            name: self._options(VariantOptions(), value, f"variants.{name}")
            for name, value in self._mapping("variants", given).items()
        }
        if not found:
            self._note("variants", "needs one at least, for example all: {gang: true}")
        return found

    def _options(self, base: T, value: Any, where: str) -> T:
        options, problems = read_options(base, value, where)
        self.problems += [Problem(one.where.removeprefix("."), one.message) for one in problems]
        return options

    def _list(self, key: str) -> list[Any]:
        value = self._document.get(key)
        if value is None:
            return []
        if not isinstance(value, list):
            self._note(key, f"must be a list, not {called(value)}")
            return []
        return value

    def _mapping(self, where: str, value: Any) -> dict[str, Any]:
        if value is None:
            return {}
        if not isinstance(value, dict):
            self._note(where, f"must be a mapping, not {called(value)}")
            return {}
        return {str(key): one for key, one in value.items()}

    def _check_name(self, name: str, where: str) -> None:
        if not name:
            self._note(where, "is missing")
        elif names.check_label(name) or len(name) > 30:
            self._note(where, f"{name!r} is no name: small letters, digits and '-', at most 30")

    def _check_names(self, where: str, given: list[str]) -> None:
        for name in sorted({name for name in given if name and given.count(name) > 1}):
            self._note(where, f"the name {name!r} is given twice")

    def _check_demand(self, text: str, where: str) -> None:
        if not text:
            self._note(where, "is missing; write cores (2.5), or phases, daily or trace with their settings")
            return
        words = text.split()
        if words[:1] == ["trace"] and len(words) > 1 and words[1] in self._unread:
            return
        try:
            read_demand(text, "", self._traces)
        except InvalidDemand as error:
            self._note(where, str(error))

    def _note(self, where: str, message: str) -> None:
        self.problems.append(Problem(where, message))


def _policy(given: Mapping[str, Any], variant: VariantOptions) -> AgentPolicy | None:
    """Return the policy of the file with only the handlers that a variant switches on; None if it has neither.

    Raises:
        InvalidInput: The policy in the file has problems.
    """
    handlers = given.get("handlers")
    if handlers is not None and not isinstance(handlers, dict):
        raise InvalidInput(POLICY_KEY, [Problem("handlers", f"must be a mapping, not {called(handlers)}")])
    switched: dict[str, Any] = {"hotspots": {"enabled": False}, **(handlers or {})}
    for name, is_on in (("suppress", variant.suppression), ("burst", variant.burst)):
        own = switched.get(name) or {}
        switched[name] = {**own, "enabled": is_on} if isinstance(own, dict) else own
    text = msgspec.json.encode({**given, "handlers": switched}).decode()
    policy = read_policy(text, {}, HandlerRegistry())
    return policy if variant.suppression or variant.burst else None


def _amount_problem(text: str) -> str:
    try:
        amount = quantity.parse(text)
    except ValueError as error:
        return f"{text!r} is no quantity: {error}"
    return "" if amount > quantity.parse("0") else f"{text!r} must be more than 0"
