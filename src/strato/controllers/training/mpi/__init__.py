"""MPI jobs: a launcher that starts ranks on workers.

`execution` shapes those of kubeflow.org/v1, whose launcher is a pod that starts ranks through the API server, on the
plan of all training jobs. Those of v2beta1 start ranks by ssh (`ssh`) from a Job (`launcher`) and have a plan of their
own (`plan`). `hosts` writes the lists of hosts that both read.
"""
