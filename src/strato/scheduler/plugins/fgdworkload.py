"""The typical workload of a cluster: the pods by which the plugin ``fgd`` counts fragments."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from strato.api import quantity
from strato.scheduler.framework.arguments import arg, structured
from strato.scheduler.plugins.fgdkernels import WHOLE, TypicalPodArrays

_MOST: Final = 4096
"""Most typical pods that a configuration may list."""
_ROUNDING: Final = 1e-9


def _cpu(text: Any) -> int:
    try:
        return quantity.milli(str(text))
    except ValueError as error:
        raise ValueError(f"{text!r} is not an amount of cpu, such as 4 or 500m") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Typical:
    """A typical pod, as written in ``fgd.workload``."""

    cpu_millicores: int = arg("cpu", 0, read=_cpu)
    """Cpu that it requests, as a quantity."""
    cards: int = arg("gpus", 0, minimum=0)
    """Whole cards; 1 with ``share``."""
    share: int = arg("share", WHOLE, minimum=1, maximum=WHOLE)
    """Thousandths of a card; less than 1000 only of one card."""
    models: str = arg("models", "")
    """Models of cards it accepts, separated by commas; empty is any."""
    count: float = arg("count", 1.0, minimum=0)
    """How many of such pods come, relative to the others."""


_read = structured(Typical)


def read_workload(given: Any) -> tuple[Typical, ...]:
    """Read the argument ``fgd.workload``: a list of mappings.

    Raises:
        ValueError: What is wrong with which entry, one problem a line.
    """
    if not isinstance(given, list):
        raise ValueError(f"{given!r} is not a list of typical pods")
    if len(given) > _MOST:
        raise ValueError(f"lists {len(given)} typical pods; at most {_MOST} are looked at, leave the rare ones out")
    found, wrong = [], []
    for number, entry in enumerate(given):
        try:
            typical = _read(entry)
        except ValueError as error:
            wrong += [
                f"[{number}].{line}" if ": " in line else f"[{number}]: {line}" for line in str(error).splitlines()
            ]
            continue
        if typical.cards > 1 and typical.share < WHOLE:
            wrong.append(f"[{number}].share: a share is of one card, not of {typical.cards}")
        found.append(typical)
    if wrong:
        raise ValueError("\n".join(wrong))
    return tuple(found)


def most_frequent(pods: Iterable[Typical], popularity_percent: float) -> tuple[Typical, ...]:
    """Return the most frequent kinds of pods up to a percentage of all pods, with the probability of each.

    Of equally frequent kinds the larger comes first.
    """
    counted: dict[tuple[int, int, int, str], float] = {}
    for pod in pods:
        key = pod.cpu_millicores, pod.share if pod.cards else 0, pod.cards, pod.models
        counted[key] = counted.get(key, 0.0) + pod.count
    total, so_far, chosen = sum(counted.values()), 0.0, []
    for key, count in sorted(counted.items(), key=lambda item: (item[1], item[0]), reverse=True):
        if so_far * 100.0 >= total * popularity_percent:
            break
        so_far += count
        chosen.append((key, count))
    return tuple(
        Typical(
            cpu_millicores=cpu,
            share=share or WHOLE,
            cards=cards,
            models=models,
            count=(count / total) / (so_far / total),
        )
        for (cpu, share, cards, models), count in chosen
    )


def arranged(typical: Sequence[Typical], models: Sequence[str]) -> TypicalPodArrays:
    """Convert typical pods to the arrays that the kernels take.

    Args:
        typical: The pods.
        models: The models of cards that nodes have, by number.
    """
    total = sum(pod.count for pod in typical)
    if abs(total - 1.0) < _ROUNDING or not total:
        total = 1.0  # probabilities already
    shares = sorted({pod.share for pod in typical if pod.cards}) or [WHOLE]
    kinds = [shares.index(pod.share) if pod.cards else 0 for pod in typical]
    accepting = [[accepts(pod.models, model) for model in models] for pod in typical]
    return TypicalPodArrays(
        np.array([pod.cpu_millicores for pod in typical], np.int64),
        np.array([pod.cards for pod in typical], np.int64),
        np.array(kinds, np.int64),
        np.array([pod.count / total for pod in typical], np.float64),
        np.array(accepting, np.bool_).reshape(-1, len(models)),
        np.array(shares, np.int64),
    )


def accepts(listed: str, model: str) -> bool:
    """Whether a model is among those listed, separated by commas; part of its name suffices. None listed: any."""
    parts = [part.strip().lower() for part in listed.split(",") if part.strip()]
    return not parts or any(part in model.lower() for part in parts)


NO_WORKLOAD: Final = arranged((), ("",))
