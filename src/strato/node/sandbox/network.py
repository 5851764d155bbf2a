"""Addresses of pods: in network namespaces behind a bridge, or one loopback address each.

With privileges every pod has its own interface, and all pods of the machine reach each other and the machine. Without
privileges pods share the machine's network, and each gets an address of 127.0.0.0/8. A process should then bind to its
pod's address (``status.podIP``, to which its host name resolves), because binding to 0.0.0.0 occupies the port for all
pods.
"""

from __future__ import annotations

import ipaddress
import socket
import zlib
from collections.abc import Iterable

_BLOCKS = ipaddress.IPv4Network("10.144.0.0/12")
_BLOCK_BITS = 20
_LOOPBACK = ipaddress.IPv4Network("127.64.0.0/10")


class PodAddresses:
    """Assigns addresses of one network to pods, in ascending order and starting again at its end.

    Args:
        network: The network; its first address is the gateway's.
    """

    def __init__(self, network: ipaddress.IPv4Network) -> None:
        self.network = network
        self.gateway = str(network[1])
        self._taken: dict[str, str] = {}
        self._next = 2

    def give(self, uid: str) -> str:
        """Return the pod's address; assigns one in the first call.

        Raises:
            OverflowError: All addresses are taken.
        """
        for address, owner in self._taken.items():
            if owner == uid:
                return address
        size = self.network.num_addresses - 3
        for step in range(size):
            address = str(self.network[2 + (self._next - 2 + step) % size])
            if address not in self._taken:
                self._taken[address] = uid
                self._next += step + 1
                return address
        raise OverflowError(f"all {size} pod addresses of {self.network} are taken")

    def owner(self, address: str) -> str:
        """Return the uid of the pod that has an address, empty if none has it."""
        return self._taken.get(address, "")

    def keep(self, uid: str, address: str) -> None:
        """Record an address that a pod got before a restart."""
        self._taken[address] = uid

    def release(self, uid: str) -> None:
        """Take back the pod's address."""
        self._taken = {address: owner for address, owner in self._taken.items() if owner != uid}


def choose_block(
    seed: str, used: Iterable[ipaddress.IPv4Network], whole: ipaddress.IPv4Network = _BLOCKS
) -> ipaddress.IPv4Network:
    """Return a /20 for a node's pods that overlaps no network in use; the seed decides where the search begins."""
    busy = list(used)
    blocks = list(whole.subnets(new_prefix=_BLOCK_BITS))
    first = zlib.crc32(seed.encode()) % len(blocks)
    for block in (*blocks[first:], *blocks[:first]):
        if not any(block.overlaps(other) for other in busy):
            return block
    return blocks[first]


def loopback_block(seed: str) -> ipaddress.IPv4Network:
    """Return a /20 of loopback addresses for a node's pods."""
    blocks = 2 ** (_BLOCK_BITS - _LOOPBACK.prefixlen)
    index = zlib.crc32(seed.encode()) % blocks
    return ipaddress.IPv4Network((int(_LOOPBACK[0]) + index * 2 ** (32 - _BLOCK_BITS), _BLOCK_BITS))


def routes_in_use() -> list[ipaddress.IPv4Network]:
    """Return the networks to which this machine has routes, without the default route."""
    networks = []
    with open("/proc/net/route") as file:
        for line in list(file)[1:]:
            fields = line.split()
            target, mask = (int.from_bytes(bytes.fromhex(fields[i])[::-1], "big") for i in (1, 7))
            if mask:
                networks.append(ipaddress.IPv4Network((target, mask.bit_count())))
    return networks


def machine_address() -> str:
    """Return the address that this machine uses for outgoing connections, or loopback without a network."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        try:
            sock.connect(("198.51.100.1", 9))  # connecting a datagram socket only selects the source address
            address: str = sock.getsockname()[0]
        except OSError:
            return "127.0.0.1"
    return address


def bridge_name(seed: str) -> str:
    """Return the name of a node's bridge, at most 15 characters."""
    return f"strato-{zlib.crc32(seed.encode()):08x}"


def veth_name(uid: str, seed: str) -> str:
    """Return the name of the machine's end of a pod's veth pair, at most 15 characters."""
    return f"st{zlib.crc32((seed + uid).encode()):08x}"
