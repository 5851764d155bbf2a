"""The NVIDIA GPUs of this machine, from device files, the driver's records and the output of ``nvidia-smi``. Pure.

A GPU is offered if its device file exists, because containers get that file. The driver's record
(``/proc/driver/nvidia/gpus``) has its name and UUID; ``nvidia-smi`` adds the memory, and shows which cards have failed
or are divided (MIG). If two sources contradict each other, the GPU is not offered, and a warning says why.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

WHOLE = "nvidia.com/gpu"
"""A GPU of one's own, as NVIDIA's device plugin offers it."""
MEMORY, NUMBER = "volcano.sh/gpu-memory", "volcano.sh/gpu-number"
"""MiB of cards that are shared, and how many cards there are, as Volcano's device plugin offers them."""
RESOURCES = (WHOLE, MEMORY, NUMBER)
LABELS = ("nvidia.com/gpu.present", "nvidia.com/gpu.product", "nvidia.com/gpu.count", "nvidia.com/gpu.memory")
"""Those labels of NVIDIA's gpu-feature-discovery that can be determined without its libraries."""

SMI_QUERY = ("--query-gpu=index,uuid,name,memory.total,mig.mode.current", "--format=csv,noheader,nounits")
_SMI_FIELDS = 5
_DEVICE = re.compile(r"nvidia(\d+)")
_NOT_IN_LABELS = re.compile(r"[^A-Za-z0-9_.-]+")
_LABEL_LENGTH = 63


@dataclass(frozen=True, slots=True)
class Gpu:
    """One card."""

    minor: int
    """Number of its device file, ``/dev/nvidiaMINOR``."""
    uuid: str = ""
    """The driver's UUID (``GPU-…``); empty when unknown."""
    model: str = ""
    memory_mib: int = 0
    """Memory of the card; 0 when unknown."""

    @property
    def name(self) -> str:
        """Its name in containers and on disk: the UUID, or else the number of its device file."""
        return self.uuid or str(self.minor)

    @property
    def device(self) -> str:
        """Its device file, below ``/dev``."""
        return f"nvidia{self.minor}"


@dataclass(frozen=True, slots=True)
class GpuSources:
    """The information about GPUs that was read from a machine."""

    devices: Collection[str] = ()
    """Names in ``/dev`` that begin with ``nvidia``."""
    driver: Sequence[str] = ()
    """The ``information`` files of ``/proc/driver/nvidia/gpus``."""
    smi: str | None = None
    """Output of ``nvidia-smi`` for `SMI_QUERY`; None when it is missing or failed."""
    smi_problem: str = ""
    """Why ``nvidia-smi`` failed."""


@dataclass(frozen=True, slots=True)
class OfferedCards:
    """The cards to offer, by their numbers, and warnings about the others."""

    gpus: tuple[Gpu, ...] = ()
    warnings: tuple[str, ...] = ()


def device_numbers(names: Collection[str]) -> list[int]:
    """Return the numbers of the cards that have a device file."""
    return sorted(int(match[1]) for name in names if (match := _DEVICE.fullmatch(name)))


def find(sources: GpuSources) -> OfferedCards:
    """Combine the sources into the cards to offer."""
    warnings: list[str] = [f"nvidia-smi failed, so the memory of GPUs is not known: {sources.smi_problem}"] * bool(
        sources.smi_problem
    )
    minors = device_numbers(sources.devices)
    known = {gpu.minor: gpu for text in sources.driver if (gpu := _from_driver(text)) is not None}
    for minor, gpu in sorted(known.items()):
        if minor not in minors:
            warnings.append(f"GPU {gpu.name} is not offered: the driver knows it, but /dev/nvidia{minor} is not there")
    if known:
        unknown = (minor for minor in minors if minor not in known)
        warnings += (f"/dev/nvidia{minor} is not offered: the driver knows no such GPU" for minor in unknown)
        gpus = [known[minor] for minor in minors if minor in known]
    else:  # some sandboxes, in which this node may run, hide the driver's records
        gpus = [Gpu(minor) for minor in minors]
    if sources.smi is not None:
        gpus = _with_smi(gpus, sources.smi, warnings)
    return OfferedCards(tuple(gpus), tuple(warnings))


def _from_driver(text: str) -> Gpu | None:
    fields = {}
    for line in text.splitlines():
        key, colon, value = line.partition(":")
        if colon:
            fields[key.strip()] = value.strip()
    minor = fields.get("Device Minor", "")
    if not minor.isdecimal():
        return None
    uuid = fields.get("GPU UUID", "")
    return Gpu(int(minor), uuid if "?" not in uuid else "", fields.get("Model", ""))  # '?' until the card is in use


@dataclass(frozen=True, slots=True)
class _Row:
    uuid: str
    model: str
    memory_mib: int
    divided: bool


def _with_smi(gpus: list[Gpu], text: str, warnings: list[str]) -> list[Gpu]:
    rows = [row for line in text.splitlines() if (row := _smi_row(line)) is not None]
    by_uuid = {row.uuid: row for row in rows}
    if any(not gpu.uuid for gpu in gpus):  # without UUIDs only their order identifies them
        if len(rows) != len(gpus):
            warnings.append(
                f"no GPU is offered: nvidia-smi names {len(rows)}, there are {len(gpus)} device files, and nothing "
                "says which is which"
            )
            return []
        pairs: list[tuple[Gpu, _Row | None]] = list(zip(gpus, rows, strict=True))
    else:
        pairs = [(gpu, by_uuid.get(gpu.uuid)) for gpu in gpus]
    offered = []
    for gpu, row in pairs:
        if row is None:
            warnings.append(f"GPU {gpu.name} is not offered: nvidia-smi does not name it, so it may have failed")
        elif row.divided:
            warnings.append(f"GPU {row.uuid} is not offered: it is divided (MIG), and parts are not handed out here")
        else:
            offered.append(replace(gpu, uuid=row.uuid, model=row.model, memory_mib=row.memory_mib))
    return offered


def _smi_row(line: str) -> _Row | None:
    fields = [field.strip() for field in line.split(",")]
    if len(fields) != _SMI_FIELDS or not fields[0].isdecimal():
        return None
    _, uuid, model, memory, mig = fields
    return _Row(uuid, model, int(memory) if memory.isdecimal() else 0, mig == "Enabled")


def capacity(gpus: Sequence[Gpu], *, shared: bool) -> dict[str, str]:
    """Return the capacity of a node with these cards: whole cards, or memory and number of shared ones."""
    if not gpus:
        return {}
    if not shared:
        return {WHOLE: str(len(gpus))}
    return {MEMORY: str(len(gpus) * _common_memory(gpus)), NUMBER: str(len(gpus))}


def _common_memory(gpus: Sequence[Gpu]) -> int:
    """Return the memory to offer per card: the least, because the scheduler divides the sum by the number of cards."""
    return min(gpu.memory_mib for gpu in gpus)


def labels(gpus: Sequence[Gpu]) -> dict[str, str]:
    """Return the node's labels; if the cards differ, those of the first one, as gpu-feature-discovery does."""
    if not gpus:
        return {}
    first = gpus[0]
    known: Mapping[str, str] = {
        "nvidia.com/gpu.present": "true",
        "nvidia.com/gpu.product": _NOT_IN_LABELS.sub("-", first.model)[:_LABEL_LENGTH].strip("-_."),
        "nvidia.com/gpu.count": str(len(gpus)),
        "nvidia.com/gpu.memory": str(first.memory_mib or ""),
    }
    return {name: value for name, value in known.items() if value}
