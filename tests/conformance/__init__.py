"""The conformance suite of Kubernetes against `strato up`: build it, run it, report it. `make conformance`."""
