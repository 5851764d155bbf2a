"""Chaos testing: a whole cluster of processes in virtual time under a seeded adversary; see docs/reliability.md."""
