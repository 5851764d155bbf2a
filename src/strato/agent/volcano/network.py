"""Network QoS of a node: Volcano's tool, if installed, limits the bandwidth of offline pods."""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
from collections.abc import Mapping
from typing import Final

from strato.agent.volcano.config import NetworkQos
from strato.errors import one_line

_log = logging.getLogger(__name__)

TOOL: Final = "/usr/local/bin/network-qos"
BANDWIDTH: Final = "volcano.sh/network-bandwidth-rate"
"""Annotation of the node with its link's speed in Mbps."""
_OWN_LIMITS: Final = ("kubernetes.io/ingress-bandwidth", "kubernetes.io/egress-bandwidth")
_TIMEOUT_SECONDS: Final = 5
_MOST_MBPS: Final = 10**9


def has_own_limits(annotations: Mapping[str, str]) -> bool:
    """Return whether a pod's bandwidth is limited by its own annotations, which excludes a limit by the tool."""
    return any(name in annotations for name in _OWN_LIMITS)


def prepare_arguments(options: NetworkQos | None, annotations: Mapping[str, str]) -> list[str] | str:
    """Return the tool's arguments, or why it cannot be started.

    Args:
        options: The wanted settings; None turns network QoS off.
        annotations: Annotations of the node.
    """
    if options is None:
        return ["prepare", "--enable-network-qos=false"]
    text = annotations.get(BANDWIDTH, "")
    if not (text.isascii() and text.isdigit() and len(text) <= 10 and 0 < int(text) <= _MOST_MBPS):
        return f"the node's annotation {BANDWIDTH} = {text!r} must be the Mbps of its link, a whole number"
    rate = int(text)
    percents = {
        "online-bandwidth-watermark": options.online_bandwidth_watermark_percent,
        "offline-low-bandwidth": options.offline_low_bandwidth_percent,
        "offline-high-bandwidth": options.offline_high_bandwidth_percent,
    }
    limits = [f"--{name}={rate * percent // 100}Mbps" for name, percent in percents.items()]
    return ["prepare", "--enable-network-qos=true", *limits, f"--check-interval={options.qos_check_interval}"]


async def prepare(options: NetworkQos | None, annotations: Mapping[str, str], tool: str = TOOL) -> str:
    """Run the tool to prepare the node; return the error, empty for none."""
    if not os.access(tool, os.X_OK):
        return f"{tool} is not installed: offline pods keep their bandwidth"
    arguments = prepare_arguments(options, annotations)
    if isinstance(arguments, str):
        return arguments
    try:
        done = await asyncio.to_thread(
            subprocess.run, [tool, *arguments], capture_output=True, timeout=_TIMEOUT_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return f"{tool} has not ended within {_TIMEOUT_SECONDS} s"
    except OSError as error:
        return f"{tool}: {one_line(error)}"
    if done.returncode:
        return f"{tool} failed: {done.stderr.decode('utf-8', 'replace').strip()[:500]}"
    return ""
