"""A framework on pymesos: command tasks, a kill, reconciliation, and tasks of an executor of its own.

Usage: ``pymesos_framework.py HOST:PORT FOLDER [PYTHON [IMAGE]]``. FOLDER holds pymesos' executor program; without a
Python that has pymesos the executor's part is left out. Both are in the image, where one is named.
"""

from __future__ import annotations

import base64
import sys
import threading
import time
from typing import Any

from pymesos import MesosSchedulerDriver, Scheduler

MASTER, FOLDER = sys.argv[1], sys.argv[2]
PYTHON, IMAGE = (*sys.argv[3:5], "", "")[:2]


def _task(name: str, offer: Any, **fields: Any) -> dict[str, Any]:
    resources = [
        {"name": "cpus", "type": "SCALAR", "scalar": {"value": 0.1}},
        {"name": "mem", "type": "SCALAR", "scalar": {"value": 64}},
    ]
    return {"task_id": {"value": name}, "agent_id": offer["agent_id"], "name": name, "resources": resources, **fields}


def _executor() -> dict[str, Any]:
    command = {"value": f"{PYTHON} {FOLDER}/pymesos_executor.py", "environment": {"variables": []}}
    resources = [
        {"name": "cpus", "type": "SCALAR", "scalar": {"value": 0.2}},
        {"name": "mem", "type": "SCALAR", "scalar": {"value": 128}},
    ]
    executor = {"executor_id": {"value": "own"}, "name": "own", "command": command, "resources": resources}
    if IMAGE:
        image = {"type": "DOCKER", "docker": {"name": IMAGE}}
        executor["container"] = {"type": "MESOS", "mesos": {"image": image}}
    return executor


class Framework(Scheduler):
    """Launches in steps; each step begins when the one before is over."""

    def __init__(self) -> None:
        self.done = threading.Event()
        self.states: dict[str, list[str]] = {}
        self.messages: list[str] = []
        self.launched: set[str] = set()

    def registered(self, driver: Any, framework_id: Any, master_info: Any) -> None:
        print("it is registered")

    def _wanted(self) -> list[str]:
        commands = ["ok", "fails", "long"]
        if not all(self._is_over(name) for name in commands) or not PYTHON:
            return commands
        return [*commands, "own-0", "own-1"]

    def _is_over(self, name: str) -> bool:
        return self.states.get(name, [""])[-1] in ("TASK_FINISHED", "TASK_FAILED", "TASK_KILLED", "TASK_LOST")

    def resourceOffers(self, driver: Any, offers: list[Any]) -> None:  # noqa: N802 - its name
        for offer in offers:
            names = [name for name in self._wanted() if name not in self.launched]
            self.launched.update(names)
            tasks = []
            for name in names:
                if name.startswith("own"):
                    data = base64.b64encode(name.encode()).decode()
                    tasks.append(_task(name, offer, executor=_executor(), data=data))
                else:
                    line = {"ok": "sleep 1; exit 0", "fails": "sleep 1; exit 3", "long": "sleep 1000"}[name]
                    tasks.append(_task(name, offer, command={"value": line}))
            driver.launchTasks(offer["id"], tasks, {"refuse_seconds": 1})

    def statusUpdate(self, driver: Any, update: Any) -> None:  # noqa: N802 - its name
        name, state = update["task_id"]["value"], update["state"]
        if update.get("reason") == "REASON_RECONCILIATION":
            print(f"reconciled {name}: {state}")
            return
        self.states.setdefault(name, []).append(state)
        print(name, state, update.get("message", ""), file=sys.stderr)
        if name == "long" and state == "TASK_RUNNING":
            driver.reconcileTasks([{"task_id": {"value": "long"}}])
            driver.killTask({"value": "long"})
        if all(self._is_over(wanted) for wanted in self._wanted()):
            self.done.set()

    def frameworkMessage(self, driver: Any, executor_id: Any, slave_id: Any, message: Any) -> None:  # noqa: N802 - its name
        self.messages.append(base64.b64decode(message).decode())

    def error(self, driver: Any, message: Any) -> None:
        print("error", message)
        self.done.set()


def main() -> None:
    framework = Framework()
    info = {"user": "nobody", "name": "pymesos", "failover_timeout": 100}
    driver = MesosSchedulerDriver(framework, info, MASTER)
    thread = threading.Thread(target=driver.run, daemon=True)
    thread.start()
    assert framework.done.wait(120), framework.states
    for name in sorted(framework.states):
        print(name, framework.states[name][-1])
    for message in sorted(framework.messages):
        print("message", message)
    driver.stop()
    thread.join(10)
    time.sleep(0.1)
    print("it has stopped")


if __name__ == "__main__":
    main()
