"""The audit log: records requests and their outcome as audit.k8s.io/v1 events.

- `policy`: which requests are recorded, and how much of them
- `events`: the events of one request
- `log`: the file, which a thread writes, and its rotation
- `service`: records requests, around the HTTP service, and around the core for the cluster's own parts

Without a policy these modules are neither loaded nor used.
"""
