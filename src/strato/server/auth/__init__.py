"""Authentication by certificates and tokens, and authorization by RBAC and by node."""
