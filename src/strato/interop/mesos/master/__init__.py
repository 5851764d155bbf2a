"""The Mesos master as a state machine: calls and observations in, events to frameworks and effects on the cluster out.

No module here waits, reads a clock or depends on HTTP or Kubernetes: callers pass the time, events are sent to a
`Stream`, and writes to the cluster are collected in the `Outbox`.

- `model`: agents, frameworks, offers, tasks, executors; `effects`: writes to the cluster
- `calls`, `frameworkinfo`, `taskinfo`: validation of calls, FrameworkInfos and TaskInfos
- `frameworks`, `offers`, `launching`, `updates`, `executors`, `agents`: the parts of the state machine
- `core`: `Master`, which puts them together
- `views`, `pages`: the state as operators read it, in the v1 API and in the old JSON pages
"""
