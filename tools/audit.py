"""Look up locked dependencies in the public database of vulnerabilities; exits with 1 when it knows one of them.

Where the database cannot be asked, nothing is known: that is said, and is no failure of the code.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path


def main(lock: str) -> int:
    """Audit a lock file."""
    command = [
        str(Path(sys.executable).parent / "pip-audit"),
        "--requirement",
        lock,
        "--disable-pip",
        "--format",
        "json",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    try:
        found = json.loads(done.stdout)["dependencies"]
    except (json.JSONDecodeError, KeyError):
        print(f"audit: the database of vulnerabilities did not answer; nothing was looked up\n{done.stderr.strip()}")
        return 0
    asked = [entry for entry in found if "skip_reason" not in entry]
    vulnerable = [entry for entry in asked if entry["vulns"]]
    for entry in vulnerable:
        for problem in entry["vulns"]:
            fixed = ", ".join(problem["fix_versions"]) or "none yet"
            print(f"audit: {entry['name']} {entry['version']}: {problem['id']}; fixed in {fixed}")
    print(
        f"audit: {len(found)} dependencies, {len(asked)} known to the database, {len(vulnerable)} with vulnerabilities"
        + ("" if asked else "; the database could not be asked")
    )
    return int(bool(vulnerable))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
