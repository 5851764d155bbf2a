"""Nodes that run the bound pods: hollow nodes (simulated) and the sandbox node (pods as processes of this machine).

Both behave like a kubelet: they register a Node, renew its Lease, watch the pods bound to it and write their status.
`podstatus` and `restarts` decide, as pure functions, for both; `hollow` and `sandbox` carry out.
"""
