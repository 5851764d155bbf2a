"""Run every benchmark, one process each: ``python -m benchmarks [NAME …]``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SUPPORT = {"__init__", "__main__", "report", "cluster", "crowded", "kube", "peer", "api_server", "flow_point"}


def main() -> int:
    here = Path(__file__).parent
    names = sys.argv[1:] or sorted(path.stem for path in here.glob("*.py") if path.stem not in SUPPORT)
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
