"""Asks histograms, estimates and container states what a case asks."""

from __future__ import annotations

from typing import Any

from strato.advice.estimators import (
    Amounts,
    Rules,
    Share,
    container_minimum,
    estimate_pod,
    to_resources,
    whole_cores,
)
from strato.advice.histogram import BucketLayout, Checkpoint, Histogram, InvalidCheckpoint
from strato.advice.use import Aggregation, ContainerUse, UseHistograms
from strato.api import quantity
from strato.history import statistics
from strato.history.rows import COMPLETED, Host, JobRun
from strato.history.statistics import Period

Json = dict[str, Any]


def histogram(given: Json) -> list[Any]:
    answers: list[Any] = []
    _steps(_histogram(given), given, given["steps"], answers)
    return answers


def _histogram(given: Json) -> Histogram:
    return Histogram(_layout(given["options"]), given.get("halfLifeSeconds", float("inf")))


def _layout(options: Json) -> BucketLayout:
    if options["type"] == "linear":
        return BucketLayout.linear(options["max"], options["bucket"], options["epsilon"])
    return BucketLayout.exponential(options["max"], options["first"], options["ratio"], options["epsilon"])


def _steps(found: Histogram, given: Json, steps: list[Json], answers: list[Any]) -> None:
    for step in steps:
        match step["op"]:
            case "add":
                found.add(step["value"], step["weight"], step.get("t", 0))
            case "subtract":
                found.subtract(step["value"], step["weight"], step.get("t", 0))
            case "merge" | "equals":
                other = _histogram(given)
                _steps(other, given, step["steps"], answers)
                if step["op"] == "merge":
                    found.merge(other)
                else:
                    answers.append(found.is_equal(other))
            case "percentiles":
                answers.append([found.percentile(share) for share in step["at"]])
            case "isEmpty":
                answers.append(found.is_empty)
            case "save":
                answers.append(_saved(found))
            case "load":
                answers.append(_load(found, step["checkpoint"]))
            case "buckets":
                answers.append({str(bucket): weight for bucket, weight in found.buckets().items()})
            case "numBuckets":
                answers.append(found.layout.count)
            case "bucketStart":
                answers.append([found.layout.start(bucket) for bucket in step["of"]])
            case "findBucket":
                answers.append([found.layout.find(value) for value in step["of"]])
            case "reference":
                answers.append(found.reference)
            case other_op:
                raise AssertionError(f"no step is called {other_op}")


def _saved(found: Histogram) -> Json:
    saved = found.save()
    weights = {str(bucket): weight for bucket, weight in saved.bucket_weights.items()}
    return {"totalWeight": saved.total_weight, "bucketWeights": weights, "referenceTimestamp": saved.reference}


def _load(found: Histogram, body: Json | None) -> str:
    try:
        if body is None:
            raise InvalidCheckpoint("there is none")
        weights = {int(bucket): weight for bucket, weight in body["bucketWeights"].items()}
        found.load(Checkpoint(body["totalWeight"], weights, body.get("referenceTimestamp", found.reference)))
    except InvalidCheckpoint:
        return "error"
    return "ok"


def container_state(given: Json) -> Json:
    calls: dict[str, list[Any]] = {"cpu": [], "memory": []}
    defaults = Aggregation()
    state = ContainerUse(
        cpu=_Calls(calls["cpu"]),
        memory=_Calls(calls["memory"]),
        options=Aggregation(
            memory_interval_seconds=given.get("aggregationIntervalSeconds", defaults.memory_interval_seconds),
            oom_min_bytes=given.get("oomMinBumpUp", given.get("oomMinBumpUpBytes", defaults.oom_min_bytes)),
            oom_ratio=given.get("oomBumpUpRatio", defaults.oom_ratio),
        ),
    )
    takes = {"cpu": state.add_cpu, "memory": state.add_memory, "oom": state.add_oom}
    accepted = [
        takes[step["op"]](step["t"], next(step[name] for name in ("value", "request", "cores") if name in step))
        for step in given["steps"]
    ]
    return {"accepted": accepted, **calls}


class _Calls:
    def __init__(self, calls: list[Any]) -> None:
        self._calls = calls

    def add(self, value: float, weight: float, at: float) -> None:
        self._calls.append(["add", value, weight, at])

    def subtract(self, value: float, weight: float, at: float) -> None:
        self._calls.append(["subtract", value, weight, at])


def estimate(given: Json) -> Json:
    if "order" in given:
        empty = UseHistograms(Aggregation())
        return {"order": list(estimate_pod(dict.fromkeys(given["order"], empty), Rules()))}
    if "integerCpu" in given:
        cpu = quantity.milli(given["cpu"])
        return to_resources(Amounts(whole_cores(cpu) if given["integerCpu"] else cpu, 0))
    if "containers" in given:
        return _pod(given)
    if "estimator" in given:
        return _estimator(given)
    rounded = to_resources(
        Amounts(given["cpuMilli"], given["memoryBytes"]),
        cpu_multiple=given["roundCpuMilli"],
        memory_multiple=given["roundMemoryBytes"],
        humanize=given["humanizeMemory"],
    )
    return {"cpuMilli": quantity.milli(rounded["cpu"]), "memory": rounded["memory"]}


def _base(given: Json) -> Amounts:
    return Amounts.of(given["base"]["cpuCores"], given["base"]["memoryBytes"])


def _pod(given: Json) -> Json:
    minimum = Amounts(given["podMin"]["cpuMilli"], given["podMin"]["memoryMiB"] << 20)
    amounts = _base(given).at_least(container_minimum(minimum, len(given["containers"])))
    answers: Json = {}
    for name in given["containers"]:
        target = {"cpuMilli": amounts.cpu_millicores, "memoryBytes": amounts.memory_bytes}
        keys = to_resources(amounts, given.get("controlled", {}).get(name, ("cpu", "memory")))
        answers[name] = {"target": target, "keys": list(keys)}
    return answers


def _estimator(given: Json) -> Json:
    rules = given["estimator"]
    use = UseHistograms(Aggregation())
    confidence = None
    match rules["kind"]:
        case "percentile":
            use.cpu, use.memory = (Histogram(_layout(given[f"{name}Histogram"])) for name in ("cpu", "memory"))
            for name in ("cpu", "memory"):
                for value, weight in given[f"{name}Samples"]:
                    getattr(use, name).add(value, weight)
            cpu, memory = (Share(rules[name]).estimate(use, 0.0, 0.0) for name in ("cpu", "memory"))
            answer = Amounts(cpu.cpu_millicores, memory.memory_bytes)
        case "confidence":
            for sample in given["samples"]:
                use.count_sample(sample["t"])
            confidence = use.confidence(rules["intervalSeconds"])
            answer = _base(given).with_confidence(confidence, rules["multiplier"], rules["exponent"])
        case "margin":
            ratio = next(rules[name] for name in ("margin", "fraction", "marginFraction", "ratio") if name in rules)
            answer = _base(given).with_margin(ratio)
        case "min":
            answer = _base(given).at_least(Amounts.of(rules["cpuCores"], rules["memoryBytes"]))
        case kind:
            raise AssertionError(f"no estimator is called {kind}")
    return {
        "cpuMilli": answer.cpu_millicores,
        "memoryBytes": answer.memory_bytes,
        "cpuCores": answer.cpu_millicores / 1000,
        "confidence": confidence,
    }


def stats(given: Json) -> Json:
    whole = Period(given.get("since", 0.0), given.get("until", 1e18))
    runs = [_run(number, fields) for number, fields in enumerate(given.get("runs", ()))]
    of_runs = statistics.of_runs(runs, whole)
    hosts = statistics.of_hosts(_hosts(given.get("hosts", ())), whole, fewest_samples=0)
    wait, length, startup = of_runs.mean_wait, of_runs.mean_run, of_runs.mean_startup
    return {
        "runs": of_runs.runs,
        "runsPerDay": of_runs.runs,
        "meanWait": wait,
        "meanWaitSeconds": wait,
        "meanRunTime": length,
        "meanRunSeconds": length,
        "meanRunTimeSeconds": length,
        "meanRun": length,
        "meanStartup": startup,
        "meanStartupSeconds": startup,
        "hostCpuMean": hosts.mean,
        "hostCpuP90": hosts.p90,
        "p90Hosts": hosts.p90_hosts,
        "p90Time": hosts.p90_time,
        "mean": hosts.mean,
        "p90": hosts.p90,
        "coverage": hosts.coverage,
    }


def _run(number: int, fields: Json) -> JobRun:
    times = {name: fields.get(name) for name in ("ready", "started", "ended", "inqueue")}
    known = {"run_id": f"{number}", "job_uid": f"{number}", "namespace": "n", "job": "j", "kind": "k", "template": "j"}
    phase = fields.get("phase", COMPLETED)
    return JobRun(**known, queue=fields.get("queue", "q"), submitted=fields["submitted"], phase=phase, **times)


def _hosts(found: Any) -> list[Host]:
    """Read hosts with their shares of use every five minutes."""
    rows = []
    for number, one in enumerate(found):
        cores = next(one[name] for name in ("cores", "capacityCores", "cpuCapacity", "capacity") if name in one)
        shares = next(one[name] for name in ("u", "cpu", "shares", "samples", "utilisation") if name in one)
        name = one.get("node", one.get("name", str(number)))
        rows += [
            Host(ts=300.0 * step, node=name, cpu_capacity=cores, cpu_used=cores * share)
            for step, share in enumerate(shares)
            if share is not None
        ]
    return rows
