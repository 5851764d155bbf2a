"""The API server's part in Services: their cluster IPs and node ports, and the services that it creates itself."""
