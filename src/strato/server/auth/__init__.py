"""Who may do what: certificates and tokens (authentication), RBAC (authorization), and their first objects."""
