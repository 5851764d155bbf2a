"""Services as the API server keeps them: their addresses and node ports, and the services that are its own."""
