"""The master's connection to Kubernetes: nodes become agents, tasks become pods, objects keep the master's state.

- `nodes`, `pods`: the resources of a node, the pod of a task, and the states of tasks by their pod; pure
- `mounts`, `volumes`: persistent volumes as mounts of pods, and as claims
- `writes`: writes of objects by key; only the newest state is sent, until it is confirmed
- `keeping`: frameworks and the registry in ConfigMaps; `groups`: roles as queues and pod groups
- `edge`: `Edge`, which watches nodes and pods and writes the master's effects
- `run`: `MesosMaster`, the component: it serves the port and, as the leader, runs the master
"""
