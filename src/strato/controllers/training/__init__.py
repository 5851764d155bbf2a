"""Training jobs of Kubeflow's kinds: one core for all frameworks, and an `adapters.Adapter` for each.

`controller` reads the state of a job into a `record`; `plan` decides from it which pods, services and PodGroup the job
should have, and its status; `controller` writes these. `verdicts` decides when a job runs, succeeds or fails, `limits`
when it has to end.

Source: spec training, which describes Kubeflow Training Operator 1.9.4.
"""
