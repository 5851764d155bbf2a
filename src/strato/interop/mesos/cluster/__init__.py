"""The master's edge to Kubernetes: nodes become agents, tasks become pods, and what is known is kept in objects.

- `nodes`, `pods`: what a node offers, what a task's pod looks like, and what a pod says of its tasks; pure
- `mounts`, `volumes`: persistent volumes as mounts of pods, and as claims
- `writes`: the newest of what is to be written under a key, until it is confirmed
- `keeping`: frameworks and the registry as ConfigMaps; `groups`: roles as queues and pod groups
- `edge`: `Edge`, which watches and writes
- `run`: `MesosMaster`, the component: the port, the leader's work
"""
