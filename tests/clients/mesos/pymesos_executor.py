"""An executor on pymesos: each task says what it was given, and ends."""

from __future__ import annotations

import base64
import threading
import time
from typing import Any

from pymesos import Executor, MesosExecutorDriver


class Own(Executor):
    """Runs tasks in threads."""

    def launchTask(self, driver: Any, task: Any) -> None:  # noqa: N802 - its name
        def run() -> None:
            def say(state: str) -> None:
                driver.sendStatusUpdate({"task_id": task["task_id"], "state": state, "timestamp": time.time()})

            say("TASK_RUNNING")
            driver.sendFrameworkMessage(base64.b64encode(b"got " + base64.b64decode(task["data"])).decode())
            time.sleep(0.2)
            say("TASK_FINISHED")

        threading.Thread(target=run, daemon=True).start()


if __name__ == "__main__":
    MesosExecutorDriver(Own()).run()
