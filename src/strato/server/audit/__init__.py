"""The audit log: who asked for what and how it was answered, as audit.k8s.io/v1 events.

- `policy`: which requests are recorded, and how much of them
- `events`: what is recorded of one request
- `log`: the file, written by a thread of its own, and its rotation
- `service`: where requests come in: around the HTTP service, and around the core for the cluster's own parts

Without a policy nothing of this is loaded or run.
"""
