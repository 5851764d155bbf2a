"""Run every benchmark, one process each: ``python -m benchmarks [NAME …]``."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

SUPPORT = {"__init__", "__main__", "report", "cluster", "crowded", "kube", "peer", "api_server", "flow_point"}


def main() -> int:
    here = Path(__file__).parent
    known = sorted({path.stem for path in here.glob("*.py")} - SUPPORT | {"kube"})
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Run benchmarks, one process each.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of {', '.join(known)}; all but kube without any")
    names = parser.parse_args().names or [name for name in known if name not in SUPPORT]
    if unknown := sorted(set(names) - set(known)):
        parser.error(f"no such benchmark: {', '.join(unknown)}; there are {', '.join(known)}")
    failed = []
    for name in names:
        print(f"== {name}", flush=True)
        if subprocess.run([sys.executable, "-m", f"benchmarks.{name}"], cwd=here.parent, check=False).returncode:
            failed.append(name)
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
