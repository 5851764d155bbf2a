"""Files of a home that several commands write at once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from strato.cli.home import Home, Stop

_ASK = """
import sys
from pathlib import Path
from strato.cli.home import Home, Stop
home = Home(Path(sys.argv[1]))
for number in range(300):
    home.write_stop(Stop(waiter=number))
"""


def test_several_may_say_at_once_how_a_cluster_is_to_stop(tmp_path: Path) -> None:
    """Each has a draft of its own; who owns the home may clear it meanwhile."""
    asking = [
        subprocess.Popen([sys.executable, "-c", _ASK, str(tmp_path)], stderr=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    home = Home(tmp_path)
    while any(process.poll() is None for process in asking):
        home.clear_run_files()
    assert [process.communicate(timeout=60)[1] for process in asking] == [""] * 3
    home.write_stop(Stop(waiter=7))
    home.clear_run_files()
    assert list(tmp_path.iterdir()) == []
