"""CPU overcommit of nodes: factors, the annotations that carry them, and amplified allocatable amounts. Pure.

A node's *ratio* is its overcommit factor times its normalisation (the work of one of its cores relative to a reference
core). The ratio is stored in an annotation. The component that writes the node's allocatable cpu multiplies the raw
amount by it: our own nodes do so themselves, for a kubelet the webhook does. The annotations are Koordinator's, so that
its components and ours understand each other.

Source: Koordinator, ``apis/extension`` and the node webhook of its manager; spec utilisation 1.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

import msgspec

from strato.api.quantity import INT64_MAX, Number, Quantity, milli, parse
from strato.decoding import UNDECODABLE
from strato.errors import UsageError

if TYPE_CHECKING:  # not at run time, because command lines import only the bounds of factors from here
    from strato.api.core import Node
    from strato.api.meta import Json, ObjectMeta

RATIO: Final = "node.koordinator.sh/resource-amplification-ratio"
"""JSON object, resource → ratio, by which the node's allocatable amounts are multiplied."""
RAW: Final = "node.koordinator.sh/raw-allocatable"
"""JSON object, resource → quantity: the allocatable amounts before amplification."""
NORMALISATION: Final = "node.koordinator.sh/cpu-normalization-ratio"
"""Work of one core relative to the reference core; a number such as ``1.20``."""
FACTOR: Final = "strato.dev/cpu-overcommit-factor"
"""Label or annotation with which operators set a node's overcommit factor; the annotation takes precedence."""
CPU_INFO: Final = "node.koordinator.sh/cpu-basic-info"
"""JSON object: model of the processor, and whether it runs with hyper-threads and turbo."""
STARTED_WITH: Final = "strato.dev/node-cpu-overcommit-factor"
"""Annotation: the factor with which a node of ours was started."""
SOURCE: Final = "strato.dev/cpu-overcommit-source"
"""Annotation: the origin of the ratio of cpu. A ratio without it was written by others, and our controller keeps it."""
MIN_FACTOR: Final = 1.0
MAX_FACTOR: Final = 10.0

AMPLIFIED: Final = ("cpu", "memory")
"""Resources that can be amplified, as in Koordinator. Our own components write ratios of cpu only."""
_NO_RATIO: Final = -1.0
_LONGEST: Final = 4096
"""Longest annotation that is parsed, in characters."""


class InvalidFactor(UsageError):
    """A factor, ratio or annotation of one that cannot be used."""

    def __init__(self, place: str, value: object, advice: str) -> None:
        super().__init__(f"{place} = {_shown(value)}: {advice}")
        self.place, self.value = place, value


def read_factor(value: object, place: str, *, least: float = MIN_FACTOR) -> float:
    """Read an overcommit factor: a number, or a text of one.

    Args:
        value: The value as a user wrote it.
        place: Its place, for the message.
        least: The smallest valid factor.

    Raises:
        InvalidFactor: The value is no number in [least, 10].
    """
    try:
        number = float(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else math.nan
    except (ValueError, OverflowError):
        number = math.nan
    if not least <= number <= MAX_FACTOR:
        raise InvalidFactor(place, value, f"must be a number from {least:g} to {MAX_FACTOR:g}, for example 1.5")
    return number


def amplified(raw: int, *factors: float) -> int:
    """Return an amount times all factors, rounded up; unchanged if the product of the factors is at most 1.

    Factors are multiplied as decimal numbers, so that 1000 × 1.1 is 1100 and not 1101.
    """
    product = math.prod((Decimal(repr(float(factor))) for factor in factors), start=Decimal(1))
    return raw if product <= 1 else min(INT64_MAX, math.ceil(raw * product))


def written_ratio(ratio: float) -> float:
    """Return a ratio rounded to two decimals, as in its annotation."""
    return float(f"{ratio:.2f}")


def ratios_text(ratios: Mapping[str, float]) -> str:
    """Return the annotation of some ratios: sorted by resource, two decimals each."""
    return "{" + ",".join(f"{json.dumps(name)}:{ratio:.2f}" for name, ratio in sorted(ratios.items())) + "}"


def read_ratios(text: str | None) -> dict[str, float]:
    """Read the annotation of ratios; empty without the annotation.

    Raises:
        InvalidFactor: The text is no JSON object of numbers.
    """
    if not text:
        return {}
    advice = 'must be a JSON object of numbers, for example {"cpu":1.50}'
    try:
        decoded = msgspec.json.decode(text[:_LONGEST], type=dict[str, float])
    except UNDECODABLE:
        raise InvalidFactor(f"metadata.annotations[{RATIO}]", text, advice) from None
    if not all(math.isfinite(ratio) for ratio in decoded.values()):
        raise InvalidFactor(f"metadata.annotations[{RATIO}]", text, advice)
    return decoded


def ratio_of(text: str | None, resource: str) -> float:
    """Return one resource's ratio, -1 where none is given.

    Raises:
        InvalidFactor: As `read_ratios`.
    """
    return read_ratios(text).get(resource, _NO_RATIO)


def final_ratios(configured: Mapping[str, float], normalisation: float) -> dict[str, float]:
    """Return the ratios to write: the configured ones, with that of cpu multiplied by the node's normalisation.

    Raises:
        InvalidFactor: A resulting ratio is below 1.
    """
    ratios = dict(configured)
    if normalisation != 1.0 or "cpu" in ratios:
        ratios["cpu"] = float(Decimal(repr(ratios.get("cpu", 1.0))) * Decimal(repr(normalisation)))
    for name, ratio in ratios.items():
        if not ratio >= 1.0:
            raise InvalidFactor(f"ratio of {name}", ratio, "must be at least 1 after normalisation; raise the factor")
    return ratios


def raw_text(raw: Mapping[str, Number]) -> str:
    """Return the annotation of raw amounts."""
    return json.dumps({name: str(amount) for name, amount in sorted(raw.items())}, separators=(",", ":"))


def read_raw(text: str | None) -> dict[str, Quantity]:
    """Read the annotation of raw amounts; leaves out resources that are not amplified, and invalid quantities."""
    try:
        decoded = msgspec.json.decode((text or "{}")[:_LONGEST], type=dict[str, Any])
    except UNDECODABLE:
        return {}
    found = {}
    for name in AMPLIFIED:
        try:
            found[name] = parse(decoded[name])
        except (KeyError, ValueError):
            continue
    return found


def amplify_amount(raw: Quantity, resource: str, ratio: float) -> Quantity:
    """Return an amplified amount: of cpu in whole milli-cpu, of anything else in whole units."""
    if ratio <= 1:
        return raw
    if resource == "cpu":
        return Quantity(amplified(raw.milli_value, ratio) * 1_000_000, raw.format)
    return Quantity(amplified(raw.value, ratio) * 1_000_000_000, raw.format)


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """The allocatable amounts of a node to write, and its annotation."""

    allocatable: Mapping[str, str]
    raw: str | None
    """The annotation `RAW`; None removes it."""


def published(raw: Mapping[str, str], ratios: Mapping[str, float]) -> Published:
    """Return what one of our own nodes publishes, whose raw amounts are known.

    Args:
        raw: Resource → quantity before amplification.
        ratios: Resource → ratio; those of resources not in `AMPLIFIED` are ignored.
    """
    if not ratios:
        return Published(allocatable=raw, raw=None)
    kept = {name: raw[name] for name in AMPLIFIED if name in raw}
    grown = {name: str(amplify_amount(parse(text), name, ratios.get(name, 1.0))) for name, text in kept.items()}
    return Published(allocatable={**raw, **grown}, raw=raw_text(kept))


def amounts_changed(old: Mapping[str, Number] | None, new: Mapping[str, Number] | None) -> bool:
    """Whether amplified resources differ between two versions of a node's allocatable; False if one is missing."""
    if old is None or new is None:
        return False
    return any(_amount(old, name) != _amount(new, name) for name in AMPLIFIED)


def _amount(amounts: Mapping[str, Number], name: str) -> Quantity | None:
    return parse(amounts[name]) if name in amounts else None


def amplify_status(new: Json, old: Json | None) -> None:
    """Amplify the status of a node in a write, by the node's annotations, in place.

    A kubelet does not know ratios. An amount that it changes is raw; one that it leaves unchanged has been amplified
    already. One rule is not Koordinator's: an amount that equals the last amplified one counts as amplified too.

    Args:
        new: The Node to be stored.
        old: The stored Node; None if there is none with raw amounts.

    Raises:
        InvalidFactor: The annotation of ratios cannot be read.
    """
    metadata = new["metadata"]
    annotations = metadata.get("annotations") or {}
    ratios = read_ratios(annotations.get(RATIO))
    if not ratios and RAW not in annotations:
        return
    status = new.setdefault("status", {})
    allocatable = status.get("allocatable") or {}
    raw = _raw_amounts(annotations.get(RAW), allocatable, old)
    for name, amount in raw.items():
        allocatable[name] = str(amplify_amount(amount, name, ratios.get(name, _NO_RATIO)))
    if allocatable:
        status["allocatable"] = allocatable
    noted = {RAW: raw_text({name: str(amount) for name, amount in raw.items()})} if ratios else {}
    metadata["annotations"] = {key: text for key, text in annotations.items() if key != RAW} | noted


def _raw_amounts(noted: str | None, incoming: Mapping[str, Number], old: Json | None) -> dict[str, Quantity]:
    """Return the raw amounts for the amounts in a write."""
    before = (old or {}).get("metadata", {}).get("annotations") or {}
    stored = ((old or {}).get("status") or {}).get("allocatable") or {}
    noted = noted or before.get(RAW)
    known = read_raw(noted)
    given = {name: parse(incoming[name]) for name in AMPLIFIED if name in incoming}
    if noted is None:
        return given
    if old is not None and not amounts_changed(stored, incoming):
        return known
    try:
        ratios = read_ratios(before.get(RATIO))
    except InvalidFactor:
        ratios = {}
    return {name: known[name] if _is_echo(name, amount, known, ratios) else amount for name, amount in given.items()}


def _is_echo(name: str, amount: Quantity, raw: Mapping[str, Quantity], ratios: Mapping[str, float]) -> bool:
    ratio = ratios.get(name, _NO_RATIO)
    return ratio > 1 and name in raw and amount == amplify_amount(raw[name], name, ratio)


def raw_cpu_milli(node: Node) -> int:
    """Return a node's allocatable cpu before amplification, in milli-cpu."""
    annotations = node.metadata.annotations
    known = read_raw(annotations[RAW]).get("cpu") if annotations and RAW in annotations else None
    return known.milli_value if known is not None else milli(node.status.allocatable.get("cpu", 0))


def cpu_ratio(node: Node) -> float:
    """Return the ratio by which a node's cpu is amplified, 1 without a valid annotation."""
    annotations = node.metadata.annotations
    if not annotations or RATIO not in annotations:
        return 1.0
    try:
        return max(1.0, ratio_of(annotations[RATIO], "cpu"))
    except InvalidFactor:
        return 1.0


def check_metadata(metadata: ObjectMeta) -> None:
    """Check a node's labels and annotations that carry factors.

    Raises:
        InvalidFactor: A value is invalid; the message is about the first, with its place.
    """
    for place, texts in (("labels", metadata.labels), ("annotations", metadata.annotations)):
        for key in (FACTOR, STARTED_WITH):
            if texts and key in texts:
                read_factor(texts[key], f"metadata.{place}[{key}]")
    for name, ratio in read_ratios(metadata.annotation(RATIO)).items():
        if not ratio >= 1.0:
            raise InvalidFactor(f"metadata.annotations[{RATIO}].{name}", ratio, "must be at least 1")


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "…'"
