"""Dynamic admission: the webhooks and admission policies that users configure while the server runs.

`sources` finds the webhooks and policies that may concern a kind and operation, once for each state of the
configuration objects, so a write that none concerns costs one look-up. `conditions`, `policies`, `mutations` and
`reviews` decide about one write, as pure functions; `webhooks` makes the calls; `service` combines them for the writing
verbs.
"""
