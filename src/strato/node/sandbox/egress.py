"""Egress NAT of pods: address translation by nftables, and forwarding on the interface of the default route.

Every node has one nftables table, named after its bridge; no other table is read or changed. If forwarding was off on
that interface, `enable_egress` switches it on for this interface only and leaves a note in ``/run``. Connections that
come in through the interface are still refused, except those to published ports. When the last node is removed,
forwarding is switched off again. Standard library only; call as root.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import socket
import subprocess
from collections.abc import Iterator

_NOTES = "/run/strato"
_FORWARDING = "/proc/sys/net/ipv4/conf/{}/forwarding"
_SEARCH = "/usr/sbin:/sbin:/usr/bin:/bin"
_TIMEOUT_SECONDS = 10.0


class EgressUnavailable(OSError):
    """The machine cannot translate the pods' addresses; the message says why."""


def table_name(bridge: str) -> str:
    """Return the table that belongs to a bridge (nftables takes no hyphen)."""
    return bridge.replace("-", "_")


def egress_device() -> str:
    """Return the interface of the default route, empty when there is none."""
    with open("/proc/net/route") as file:
        routes = [line.split() for line in list(file)[1:]]
    defaults = [(int(fields[6]), fields[0]) for fields in routes if fields[1] == "00000000" == fields[7]]
    return min(defaults)[1] if defaults else ""


def rules(bridge: str, network: str, device: str, *, guard: bool) -> str:
    """Return the table as nftables reads it; loading it again replaces it whole.

    Args:
        bridge: The pods' bridge.
        network: The network of their addresses.
        device: The interface of the default route.
        guard: Whether forwarding from ``device`` is on only for our pods, so that all other forwarding is refused.
    """
    name = table_name(bridge)
    guarded = f'    iifname "{device}" oifname != "{bridge}" ct state new ct status & dnat == 0 drop\n' if guard else ""
    return (
        f"table ip {name} {{}}\ndelete table ip {name}\ntable ip {name} {{\n"
        "  chain postrouting {\n    type nat hook postrouting priority 100; policy accept;\n"
        f'    ip saddr {network} oifname != "{bridge}" masquerade\n  }}\n'
        "  chain forward {\n    type filter hook forward priority 0; policy accept;\n"
        f'    oifname "{bridge}" iifname != "{bridge}" ct state established,related accept\n'
        f'    oifname "{bridge}" iifname != "{bridge}" drop\n{guarded}  }}\n}}\n'
    )


def enable_egress(bridge: str, network: str) -> None:
    """Let the pods behind a bridge reach all networks that the machine reaches. Idempotent.

    Raises:
        EgressUnavailable: nftables is missing or refused, or the machine itself has no default route.
    """
    device = _device()
    with _one_at_a_time():
        _sweep(keep=bridge)
        _write(_note(bridge), "")
        note = os.path.join(_NOTES, f"forwarding-{device}")
        if _read(_FORWARDING.format(device)) == "0":
            with open(note, "w"):  # before switching on, so that after a crash in between it is switched off again
                pass
        _nft(rules(bridge, network, device, guard=os.path.exists(note)))
        for name in (bridge, device):
            _write(_FORWARDING.format(name), "1")


def disable_egress(bridge: str) -> None:
    """Remove the bridge's table; with the last table switch forwarding off. Idempotent.

    Raises:
        EgressUnavailable: nftables refused.
    """
    if not os.path.exists(_note(bridge)):
        return
    with _one_at_a_time():
        _sweep(remove=bridge)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(_note(bridge))


def unavailable() -> str:
    """Return why this machine cannot translate the pods' addresses, empty when it can; changes nothing."""
    try:
        _device()
        _our_tables()
    except EgressUnavailable as error:
        return str(error)
    return ""


def _device() -> str:
    device = egress_device()
    if not device:
        raise EgressUnavailable("this machine has no default route")
    return device


def _note(bridge: str) -> str:
    """Return the path of the note for a bridge whose egress NAT is enabled."""
    return os.path.join(_NOTES, f"egress-{bridge}")


def _sweep(*, keep: str = "", remove: str = "") -> None:
    """Remove a bridge's table and those of bridges that are gone; with the last table switch forwarding off."""
    left = 0
    for name in _our_tables():
        bridge = name.replace("_", "-", 1)
        if bridge == remove or (bridge != keep and not _exists(bridge)):
            _nft(f"delete table ip {name}\n")
        else:
            left += 1
    if left or keep:
        return
    for note in os.listdir(_NOTES):
        if note.startswith("forwarding-"):
            with contextlib.suppress(OSError):  # the interface is gone
                _write(_FORWARDING.format(note.removeprefix("forwarding-")), "0")
            os.unlink(os.path.join(_NOTES, note))


def _exists(device: str) -> bool:
    try:
        socket.if_nametoindex(device)
    except OSError:
        return False
    return True


def _our_tables() -> list[str]:
    return re.findall(r"^table ip (strato_[0-9a-f]{8})$", _nft("list tables ip\n"), re.MULTILINE)


@contextlib.contextmanager
def _one_at_a_time() -> Iterator[None]:
    os.makedirs(_NOTES, mode=0o755, exist_ok=True)
    lock = os.open(os.path.join(_NOTES, "lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _program() -> str | None:
    return shutil.which("nft", path=_SEARCH)


def _nft(script: str) -> str:
    program = _program()
    if program is None:
        raise EgressUnavailable("nft is not installed; on Debian: apt-get install nftables")
    try:
        done = subprocess.run(
            [program, "-f", "-"], input=script, text=True, capture_output=True, timeout=_TIMEOUT_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise EgressUnavailable(f"nft does not answer within {_TIMEOUT_SECONDS:g} s") from None
    if done.returncode:
        raise EgressUnavailable(f"nft refused: {' '.join(done.stderr.split())[:300]}")
    return done.stdout


def _read(path: str) -> str:
    with open(path) as file:
        return file.read().strip()


def _write(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)
