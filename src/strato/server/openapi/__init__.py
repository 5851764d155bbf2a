"""OpenAPI documents of everything the server serves."""
