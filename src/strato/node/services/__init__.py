"""Services on a node: who stands behind each, the proxy that connects to them, and their names.

The proxy and the name server are a process of their own (`strato.node.services.dataplane`), so that what pods send one
another never waits for, or holds up, the API server and the scheduler. `strato.node.services.serviceproxy` tells it
what there is.
"""
