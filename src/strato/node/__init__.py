"""What stands at the end of a bind: hollow nodes (in name only) and the sandbox node (this machine's processes).

Both follow the kubelet: they register a Node, renew its Lease, watch the pods bound to it and write their status.
`podstatus` and `restarts` are the decisions, as pure functions; the rest acts on them.
"""
