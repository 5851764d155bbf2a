"""Admission that users configure while the server runs: webhooks and admission policies.

Which of them may concern a kind and an operation is worked out once for each state of the configurations (`sources`),
so that a write which none concerns pays for a look-up. What is decided about one write is in `conditions`, `policies`,
`mutations` and `reviews`, pure functions; `webhooks` makes the calls, and `service` puts all in order for the verbs.
"""
