"""Services on a node: their endpoints, the proxy that connects clients to them, and their DNS names.

Proxy and name server run in a process of their own (`strato.node.services.dataplane`), so that traffic between pods
neither waits for nor delays the API server and the scheduler. `strato.node.services.serviceproxy` sends that process
the services.
"""
