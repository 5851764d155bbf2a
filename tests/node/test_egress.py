"""Egress NAT of pods: real namespaces, a real bridge and real rules, in a network namespace of the test's own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

from strato.node.sandbox import egress
from strato.node.sandbox.network import bridge_name


def test_a_bridge_has_one_table_whose_name_nftables_takes() -> None:
    assert egress.table_name(bridge_name("/some/where")).replace("_", "").isalnum()


@pytest.mark.parametrize("guard", [True, False])
def test_others_are_refused_on_the_way_in_only_while_forwarding_is_on_because_of_us(guard: bool) -> None:
    text = egress.rules("strato-00000001", "10.144.0.0/20", "eth0", guard=guard)
    assert ('iifname "eth0" oifname != "strato-00000001" ct state new' in text) is guard
    assert 'ip saddr 10.144.0.0/20 oifname != "strato-00000001" masquerade' in text


WORLD = """
import os, socket, subprocess, sys, threading
from strato.node import netlink
from strato.node.sandbox import egress, linux

linux.unshare(linux.CLONE_NEWNET | linux.CLONE_NEWNS)
linux.make_mounts_private()
linux.mount("strato", "/run", "tmpfs")
linux.mount("proc", "/proc", "proc")  # /proc/sys/net of this network namespace

def neighbour(address, prefix, gateway_address, cable):
    '''A process in a network namespace of its own, cabled to us; runs what is written to it.'''
    ready, go = os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:
        linux.unshare(linux.CLONE_NEWNET)
        os.write(ready[1], b"r")
        os.read(go[0], 1)
        netlink.set_up("lo")
        netlink.add_address("eth0", address, prefix)
        netlink.set_up("eth0")
        if gateway_address:
            netlink.add_default_route(gateway_address)
        os.write(ready[1], b"r")
        return 0
    os.read(ready[0], 1)
    cable(os.open(f"/proc/{pid}/ns/net", os.O_RDONLY))
    os.write(go[1], b"g")
    os.read(ready[0], 1)
    return pid

def outcome(fd):
    return os.read(fd, 200).decode()

def try_to_reach(address, port, seconds):
    try:
        with socket.create_connection((address, port), seconds) as sock:
            return sock.recv(100).decode()
    except OSError as err:
        return "none"

BRIDGE = "strato-0badcafe"
netlink.set_up("lo")
netlink.create_bridge("outer"); netlink.add_address("outer", "198.51.100.1", 24); netlink.set_up("outer")
netlink.create_bridge(BRIDGE); netlink.add_address(BRIDGE, "10.144.0.1", 20); netlink.set_up(BRIDGE)
netlink.add_default_route("198.51.100.9")

report = os.pipe()
ask = os.pipe()
def outer_cable(ns):
    netlink.create_veth("o0", "outer", "eth0", ns)

def inner_cable(ns):
    netlink.create_veth("p0", BRIDGE, "eth0", ns)

if neighbour("198.51.100.9", 24, "", outer_cable) == 0:
    server = socket.create_server(("198.51.100.9", 80))
    os.write(report[1], b"r")
    while True:
        sock, peer = server.accept()
        sock.sendall(peer[0].encode())
        sock.close()
outcome(report[0])
if neighbour("10.144.0.2", 20, "10.144.0.1", inner_cable) == 0:
    while patience := os.read(ask[0], 1):
        os.write(report[1], try_to_reach("198.51.100.9", 80, int(patience)).encode())

def from_the_pod(patience=b"1"):
    os.write(ask[1], patience)
    return outcome(report[0])

def state():
    tables = subprocess.run([NFT, "list", "tables"], capture_output=True, text=True, check=True).stdout.split("\\n")
    with open("/proc/sys/net/ipv4/conf/outer/forwarding") as file:
        return sorted(filter(None, tables)), file.read().strip()
"""

STEPS = """
subprocess.run([NFT, "add table ip theirs"], check=True)
print("closed", from_the_pod(), *state())
egress.enable_egress(BRIDGE, "10.144.0.0/20")
egress.enable_egress(BRIDGE, "10.144.0.0/20")
print("open", from_the_pod(b"9"), *state())
egress.disable_egress(BRIDGE)
egress.disable_egress(BRIDGE)
print("closed", from_the_pod(), *state())
"""

CRASHED = """
netlink.create_bridge("strato-0badbeef")
egress.enable_egress("strato-0badbeef", "10.144.16.0/20")
egress.enable_egress(BRIDGE, "10.144.0.0/20")
egress.disable_egress(BRIDGE)
print("one left", *state())
egress.enable_egress(BRIDGE, "10.144.0.0/20")
netlink.delete_link("strato-0badbeef")  # its node was killed and its bridge removed by hand
egress.disable_egress(BRIDGE)
print("none left", *state())
"""


def in_a_world(steps: str) -> list[str]:
    nft = shutil.which("nft", path="/usr/sbin:/sbin:/usr/bin:/bin")
    if os.geteuid() != 0 or nft is None:
        pytest.skip("needs root and nft; on Debian: apt-get install nftables")
    program = f"NFT = {nft!r}\n{WORLD}\n{steps}\nos.killpg(0, 9)"
    done = subprocess.run(
        [sys.executable, "-u", "-c", program],
        text=True,
        capture_output=True,
        timeout=600,
        check=False,
        start_new_session=True,
    )
    if "Operation not permitted" in done.stderr:
        pytest.skip("this machine allows no network namespaces")
    assert not done.stderr, done.stderr
    return done.stdout.splitlines()


def test_pods_reach_out_while_the_way_is_open_and_all_is_as_before_afterwards() -> None:
    assert in_a_world(STEPS) == [
        "closed none ['table ip theirs'] 0",
        "open 198.51.100.1 ['table ip strato_0badcafe', 'table ip theirs'] 1",
        "closed none ['table ip theirs'] 0",
    ]


def test_forwarding_stays_on_for_another_node_and_goes_off_with_the_last_also_after_a_crash() -> None:
    assert in_a_world(CRASHED) == ["one left ['table ip strato_0badbeef'] 1", "none left [] 0"]
