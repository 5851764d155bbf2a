"""What stands at the end of a bind: hollow nodes (in name only) and the sandbox node (this machine's processes).

Both follow the kubelet: they register a Node, renew its Lease, watch the pods bound to it and write their status.
`podstatus`, `restarts` and `runplan` are the decisions, as pure functions; the rest acts on them.
"""
