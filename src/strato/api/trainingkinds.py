"""Which kinds of training jobs a cluster serves; each kind has a switch with its name. Pure.

A kind that is switched off has neither a definition nor a controller, so that kubectl does not know it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from strato.api import catalog
from strato.api.kinds import Kind
from strato.errors import UsageError, nearest

SWITCHES: Final[Mapping[str, tuple[Kind, ...]]] = {
    "TFJob": (catalog.TFJOB,),
    "PyTorchJob": (catalog.PYTORCHJOB,),
    "XGBoostJob": (catalog.XGBOOSTJOB,),
    "PaddleJob": (catalog.PADDLEJOB,),
    "JAXJob": (catalog.JAXJOB,),
    "MPIJob": (catalog.MPIJOB_V1, catalog.MPIJOB),
    "TrainJob": (catalog.TRAINJOB, catalog.TRAININGRUNTIME, catalog.CLUSTERTRAININGRUNTIME),
}
"""Name of a switch → the kinds that it switches."""
ALL: Final = "*"
"""All kinds, which is also the default."""
NONE: Final = "none"

_SWITCH_OF: Final = {kind: name for name, kinds in SWITCHES.items() for kind in kinds}
_BY_WORD: Final = {name.lower(): name for name in SWITCHES}


def switch_of(kind: Kind) -> str:
    """Return the name of a kind's switch; empty for one that has none."""
    return _SWITCH_OF.get(kind, "")


def kinds_off(text: str) -> frozenset[Kind]:
    """Read a list such as ``TFJob,PyTorchJob`` or ``*,-MPIJob``, in any case, and return the kinds that are off.

    ``*`` is all kinds, ``-NAME`` excludes one, ``none`` alone is no kind.

    Raises:
        UsageError: A name is unknown or occurs twice; the message lists all such names.
    """
    words = [word.strip() for word in text.split(",") if word.strip()]
    if [word.lower() for word in words] == [NONE]:
        return kinds_of(SWITCHES)
    problems: list[str] = []
    asked: dict[str, bool] = {}
    everything = not words
    for word in words:
        if word == ALL:
            everything = True
            continue
        name = _BY_WORD.get(word.lstrip("-").lower(), "")
        if not name:
            problems.append(f"{word!r} is no kind of training job{nearest(word.lstrip('-'), list(SWITCHES))}")
        elif name in asked:
            problems.append(f"{name} is named twice; name it once")
        asked[name] = not word.startswith("-")
    if problems:
        raise UsageError(f"kinds of training jobs {text!r}: {'; '.join(problems)}")
    return kinds_of([name for name in SWITCHES if not asked.get(name, everything)])


def kinds_of(names: Collection[str]) -> frozenset[Kind]:
    """Return the kinds of some switches."""
    return frozenset(kind for name in names for kind in SWITCHES[name])


def value_of(name: str) -> str:
    """Return the chart's value that switches a kind."""
    return f"custom.{name.lower()}_enable"
