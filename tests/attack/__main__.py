"""Run every campaign at its nightly size; those after one that found something still run."""

from __future__ import annotations

import argparse
import subprocess
import sys
import time

CAMPAIGNS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("fuzz", ("--count", "1000000")),
    ("flood", ("--count", "1400")),
    ("goes", ("--objects", "100000")),
    ("openapi_fuzz", ("--count", "50000")),
    ("breakout", ("--count", "20")),
    ("damage", ("--count", "1000")),
    ("kills", ("--count", "1000")),
    ("evictions", ("--count", "10000")),
    ("cycles", ("--count", "20000")),
    ("fastpaths", ("--count", "100000")),
    ("faults", ("--count", "500")),
    ("failover", ("--count", "200")),
    ("soak", ("--minutes", "60")),
    ("paths", ("--count", "120000")),
    ("rights", ("--count", "100000")),
    ("streams", ("--count", "5000")),
    ("files", ("--count", "100000")),
)
"""Module in this package and its nightly arguments."""


def main() -> int:
    """Return 1 when a campaign found something."""
    parser = argparse.ArgumentParser(description=__doc__)
    names = [name for name, _ in CAMPAIGNS]
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"campaigns; all by default: {', '.join(names)}")
    wanted = parser.parse_args().names or names
    if unknown := sorted({*wanted} - {*names}):
        parser.error(f"no campaign is called {', '.join(unknown)}")
    campaigns = [(name, arguments) for name, arguments in CAMPAIGNS if name in wanted]
    results = []
    for number, (name, arguments) in enumerate(campaigns, 1):
        print(f"\n[{number}/{len(campaigns)}] {name} {' '.join(arguments)}", flush=True)
        begun = time.monotonic()
        code = subprocess.run([sys.executable, "-m", f"tests.attack.{name}", *arguments], check=False).returncode
        results.append((name, code, time.monotonic() - begun))
    print("\ncampaign              result     minutes")
    for name, code, seconds in results:
        print(f"{name:<20}  {'safe' if code == 0 else f'exit {code}':<9}  {seconds / 60:7.1f}")
    return int(any(code for _, code, _ in results))


if __name__ == "__main__":
    sys.exit(main())
