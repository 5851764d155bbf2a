"""The Mesos master as a state machine: calls and observations in, events to frameworks and effects on the cluster out.

Nothing here waits, reads a clock or knows HTTP or Kubernetes: instants are handed in, events go to a `Stream`, and
what is to be written is left in the `Outbox`.

- `model`: agents, frameworks, offers, tasks, executors; `effects`: what is to be written
- `calls`: which calls are valid; `frameworkinfo`, `taskinfo`: what frameworks and tasks say of themselves
- `frameworks`, `offers`, `launching`, `updates`, `executors`, `agents`: the parts of the machine
- `core`: `Master`, which puts them together
- `views`, `pages`: what operators see, as the v1 API and as the old JSON pages
"""
