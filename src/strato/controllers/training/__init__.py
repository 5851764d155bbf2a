"""Training jobs of Kubeflow's kinds: one core, and what differs in one file per framework.

`plan` decides from what was read (`record`) which pods, services and PodGroup there should be and what the status says;
`controller` reads and writes. `verdicts` says when a job runs, succeeds or fails, `limits` when it has to end.

Source: spec training, which describes Kubeflow Training Operator 1.9.4.
"""
