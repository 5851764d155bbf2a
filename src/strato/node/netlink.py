"""The network of sandboxes by rtnetlink: a bridge, and a veth pair per pod. Standard library only.

One request costs some 50 µs where an ``ip`` command costs milliseconds, and iproute2 need not be installed.
"""

from __future__ import annotations

import contextlib
import errno
import ipaddress
import os
import socket
import struct

_NEWLINK, _DELLINK, _NEWADDR, _NEWROUTE, _DELROUTE = 16, 17, 20, 24, 25
_REQUEST, _ACK, _EXCL, _CREATE = 1, 4, 0x200, 0x400
_IFNAME, _MTU, _MASTER, _LINKINFO, _NET_NS_FD = 3, 4, 10, 18, 28
_INFO_KIND, _INFO_DATA, _VETH_PEER = 1, 2, 1
_IFA_ADDRESS, _IFA_LOCAL = 1, 2
_RTA_DST, _RTA_OIF, _RTA_GATEWAY = 1, 4, 5
_UP = 1


def _attribute(kind: int, body: bytes) -> bytes:
    length = 4 + len(body)
    return struct.pack("=HH", length, kind) + body + b"\0" * (-length % 4)


def _text(kind: int, value: str) -> bytes:
    return _attribute(kind, value.encode() + b"\0")


def _link(index: int = 0, flags: int = 0, change: int = 0) -> bytes:
    return struct.pack("=BxHiII", socket.AF_UNSPEC, 0, index, flags, change)


def _ask(kind: int, flags: int, body: bytes) -> None:
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, socket.NETLINK_ROUTE) as sock:
        sock.bind((0, 0))
        sock.send(struct.pack("=IHHII", 16 + len(body), kind, _REQUEST | _ACK | flags, 1, 0) + body)
        answer = sock.recv(65536)
    number = -struct.unpack_from("=i", answer, 16)[0]
    if number:
        raise OSError(number, f"rtnetlink request {kind}: {os.strerror(number)}")


def create_bridge(name: str) -> None:
    """Create a bridge; FileExistsError when there is one of that name."""
    info = _attribute(_LINKINFO, _text(_INFO_KIND, "bridge"))
    _ask(_NEWLINK, _CREATE | _EXCL, _link() + _text(_IFNAME, name) + info)


def create_veth(name: str, bridge: str, peer: str, namespace_fd: int) -> None:
    """Create a veth pair: one end on the bridge, the other as interface ``peer`` in another network namespace."""
    other = _link() + _text(_IFNAME, peer) + _attribute(_NET_NS_FD, struct.pack("=I", namespace_fd))
    data = _attribute(_INFO_DATA, _attribute(_VETH_PEER, other))
    info = _attribute(_LINKINFO, _text(_INFO_KIND, "veth") + data)
    master = _attribute(_MASTER, struct.pack("=I", socket.if_nametoindex(bridge)))
    _ask(_NEWLINK, _CREATE | _EXCL, _link(flags=_UP, change=_UP) + _text(_IFNAME, name) + master + info)


def delete_link(name: str) -> None:
    """Delete an interface; no effect when it does not exist."""
    try:
        _ask(_DELLINK, 0, _link(socket.if_nametoindex(name)))
    except OSError as err:
        if err.errno not in (None, errno.ENODEV):  # if_nametoindex gives no number
            raise


def set_up(name: str) -> None:
    """Bring an interface up."""
    _ask(_NEWLINK, 0, _link(socket.if_nametoindex(name), _UP, _UP))


def add_address(name: str, address: str, prefix_length: int) -> None:
    """Give an interface an IPv4 address; no effect when it has the address."""
    packed = socket.inet_aton(address)
    index = socket.if_nametoindex(name)
    body = struct.pack("=BBBBI", socket.AF_INET, prefix_length, 0, 0, index)
    with contextlib.suppress(FileExistsError):
        _ask(_NEWADDR, _CREATE | _EXCL, body + _attribute(_IFA_LOCAL, packed) + _attribute(_IFA_ADDRESS, packed))


def add_default_route(gateway: str) -> None:
    """Send everything without a better route through the gateway."""
    body = struct.pack("=BBBBBBBBI", socket.AF_INET, 0, 0, 0, 254, 3, 0, 1, 0)
    _ask(_NEWROUTE, _CREATE | _EXCL, body + _attribute(_RTA_GATEWAY, socket.inet_aton(gateway)))


def add_local_route(network: ipaddress.IPv4Network) -> None:
    """Make all addresses of a network this machine's own (a local route); no effect when the route exists."""
    with contextlib.suppress(FileExistsError):
        _ask(_NEWROUTE, _CREATE | _EXCL, _local_route(network))


def delete_local_route(network: ipaddress.IPv4Network) -> None:
    """Remove the route of `add_local_route`; no effect when it does not exist."""
    try:
        _ask(_DELROUTE, 0, _local_route(network))
    except OSError as err:
        if err.errno != errno.ESRCH:
            raise


def _local_route(network: ipaddress.IPv4Network) -> bytes:
    table, protocol, scope, kind = 255, 3, 254, 2  # local, static, host, local
    body = struct.pack("=BBBBBBBBI", socket.AF_INET, network.prefixlen, 0, 0, table, protocol, scope, kind, 0)
    loopback = _attribute(_RTA_OIF, struct.pack("=I", socket.if_nametoindex("lo")))
    return body + _attribute(_RTA_DST, network.network_address.packed) + loopback
