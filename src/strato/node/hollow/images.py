"""How long a hollow node takes to pull a pod's images: by size and rate, some in parallel, cached afterwards."""

from __future__ import annotations

import heapq
import math
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from strato.api import quantity
from strato.errors import InvalidInput, Problem, UsageError

IMAGE_SIZE: Final = "strato.dev/image-size"
"""Pod annotation: size of each of its images, a quantity."""
_KEPT: Final = 1000
"""Most images that a node keeps; the least recently used are dropped first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PullSpeed:
    """How fast nodes pull images."""

    bytes_per_second: float = math.inf
    """Rate of each pull; infinite: pulls take no time."""
    size_bytes: float = 500 * 2**20
    """Size of an image whose pod has no annotation."""
    parallel: int = 1
    """Most pulls of a node at a time; a kubelet's default is one."""


def parse_pull_speed(text: str) -> PullSpeed:
    """Read ``rate=100Mi,size=500Mi,parallel=3``; with an empty text pulls take no time.

    Raises:
        InvalidInput: The text is invalid; all problems are listed.
    """
    problems, found = [], {}
    for item in text.split(",") if text.strip() else ():
        name, _, value = (part.strip() for part in item.partition("="))
        number = _amount(value)
        if name not in ("rate", "size", "parallel"):
            problems.append(Problem(item.strip(), "is none of rate=BYTES, size=BYTES and parallel=NUMBER"))
        elif number is None or (name == "parallel" and not number.is_integer()):
            problems.append(Problem(name, f"{value!r} is no {'number' if name == 'parallel' else 'size'} above zero"))
        else:
            found[name] = number
    if "rate" not in found and not problems and text.strip():
        problems.append(Problem("rate", "is missing; write for example rate=100Mi, bytes per second of each pull"))
    if problems:
        raise InvalidInput(f"image pulls {text!r}", problems)
    return PullSpeed(
        bytes_per_second=found.get("rate", math.inf),
        size_bytes=found.get("size", PullSpeed().size_bytes),
        parallel=int(min(found.get("parallel", 1), 1000)),
    )


def image_size_problem(annotations: Mapping[str, str] | None) -> str:
    """Return a sentence if a pod's annotated image size is invalid and therefore ignored, else empty."""
    text = (annotations or {}).get(IMAGE_SIZE)
    if text is None or _amount(text) is not None:
        return ""
    return f"annotation {IMAGE_SIZE}: {text!r} is ignored, want a size such as 2Gi"


@dataclass(slots=True)
class _Images:
    """The images of one node."""

    ready_at: OrderedDict[str, float] = field(default_factory=OrderedDict)
    """Image → instant from which it is on the node."""
    busy_until: list[float] = field(default_factory=list)
    """A heap of when each of the parallel pulls ends."""


class ImagePulls:
    """The images of all hollow nodes of a process."""

    def __init__(self, speed: PullSpeed | None = None) -> None:
        self._speed = speed if speed is not None else PullSpeed()
        self._nodes: dict[str, _Images] = {}

    @property
    def take_time(self) -> bool:
        """Whether pulls take any time."""
        return self._speed.bytes_per_second < math.inf

    def pull(self, node: str, images: Iterable[str], annotations: Mapping[str, str] | None, now: float) -> float:
        """Begin to pull the images that a node lacks, and return the seconds until it has all.

        Args:
            node: Name of the node.
            images: Images of a pod's containers.
            annotations: Annotations of the pod.
            now: The present, always by the same clock.
        """
        if not self.take_time:
            return 0.0
        held = self._nodes.setdefault(node, _Images())
        size = _amount((annotations or {}).get(IMAGE_SIZE, "")) or self._speed.size_bytes
        longest = now
        for image in images:
            ready = held.ready_at.get(image)
            if ready is None:
                ready = held.ready_at[image] = self._begin(held, size, now)
            held.ready_at.move_to_end(image)
            longest = max(longest, ready)
        while len(held.ready_at) > _KEPT:
            held.ready_at.popitem(last=False)
        return longest - now

    def _begin(self, held: _Images, size: float, now: float) -> float:
        seconds = size / self._speed.bytes_per_second
        if len(held.busy_until) < self._speed.parallel:
            heapq.heappush(held.busy_until, now + seconds)
            return now + seconds
        ready = max(now, held.busy_until[0]) + seconds
        heapq.heapreplace(held.busy_until, ready)
        return ready


def _amount(text: str) -> float | None:
    """Return a positive quantity; None when the text is none."""
    try:
        amount = quantity.parse(text).nanos / 1e9
    except (UsageError, ValueError):
        return None
    return amount if amount > 0 else None
