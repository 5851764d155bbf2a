"""What a pod finds in ``/etc/resolv.conf``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from strato.api.core import PodSpec
from strato.node.sandbox.resolver import ClusterDns, DnsScope, resolv_conf

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

    assert resolv_conf(PodSpec(), reach, None, [str(path) for path in files]) == want


CLUSTER = ClusterDns("10.96.0.10", "team", "cluster.local")
BELOW = "team.svc.cluster.local svc.cluster.local cluster.local"
OWN = {"nameservers": ["10.1.1.1"], "searches": ["a.example"], "options": [{"name": "ndots", "value": "2"}]}


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        pytest.param({}, f"search {BELOW} corp.example\nnameserver 10.96.0.10\noptions ndots:5\n", id="by default"),
        pytest.param({"dnsPolicy": "Default"}, "search corp.example\nnameserver 9.9.9.9\n", id="the machine's"),
        pytest.param(
            {"hostNetwork": True}, "search corp.example\nnameserver 9.9.9.9\n", id="on the machine's network: also its"
        ),
        pytest.param(
            {"hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet"},
            f"search {BELOW} corp.example\nnameserver 10.96.0.10\noptions ndots:5\n",
            id="there too when asked for",
        ),
        pytest.param(
            {"dnsPolicy": "None", "dnsConfig": OWN},
            "search a.example\nnameserver 10.1.1.1\noptions ndots:2\n",
            id="the pod's own alone",
        ),
        pytest.param(
            {"dnsConfig": OWN},
            f"search {BELOW} corp.example a.example\nnameserver 10.96.0.10\nnameserver 10.1.1.1\noptions ndots:2\n",
            id="the pod's own after the cluster's",
        ),
        pytest.param(
            {"dnsPolicy": "None", "dnsConfig": {"nameservers": [f"10.1.1.{n}" for n in range(9)]}},
            "nameserver 10.1.1.0\nnameserver 10.1.1.1\nnameserver 10.1.1.2\n",
            id="three servers at most",
        ),
    ],
)
def test_resolv_conf_with_a_cluster_name_server(tmp_path: Path, spec: dict[str, Any], want: str) -> None:
    file = tmp_path / "resolv.conf"
    file.write_text("nameserver 9.9.9.9\nsearch corp.example\n")
    decoded = msgspec.convert({"dnsPolicy": "ClusterFirst", **spec}, PodSpec)

    assert resolv_conf(decoded, DnsScope.TRANSLATED, CLUSTER, [str(file)]) == want
