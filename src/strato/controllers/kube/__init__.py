"""Kubernetes' own controllers, as far as the embedded cluster needs them; a real cluster runs its own."""
