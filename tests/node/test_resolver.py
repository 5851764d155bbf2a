"""What a pod finds in ``/etc/resolv.conf``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from strato.api.core import PodSpec
from strato.node.sandbox.resolver import DnsScope, resolv_conf

NO_SERVER = "nameserver 127.0.0.1\noptions timeout:1 attempts:1\n"
CASES: list[Any] = [
    pytest.param(
        DnsScope.MACHINE, "nameserver 127.0.0.53", "", "nameserver 127.0.0.53\n", id="on the machine's network"
    ),
    pytest.param(
        DnsScope.TRANSLATED, "nameserver 9.9.9.9", "", "nameserver 9.9.9.9\n", id="a server beyond the machine"
    ),
    pytest.param(
        DnsScope.TRANSLATED,
        "nameserver 127.0.0.53",
        "nameserver 9.9.9.9",
        "nameserver 9.9.9.9\n",
        id="behind a local stub",
    ),
    pytest.param(
        DnsScope.TRANSLATED,
        "nameserver ::1",
        "",
        NO_SERVER,
        id="only a server the pod cannot reach says no at once",
    ),
    pytest.param(DnsScope.PODS, "nameserver 9.9.9.9", "", NO_SERVER, id="without egress no server is waited for"),
]


@pytest.mark.parametrize(("reach", "first", "second", "want"), CASES)
def test_resolv_conf(tmp_path: Path, reach: DnsScope, first: str, second: str, want: str) -> None:
    files = [tmp_path / "first", tmp_path / "second"]
    for path, text in zip(files, (first, second), strict=True):
        path.write_text(text)

    assert resolv_conf(PodSpec(), reach, [str(path) for path in files]) == want
