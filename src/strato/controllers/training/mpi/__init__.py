"""MPI jobs: a launcher that starts ranks on workers.

Jobs of kubeflow.org/v1 follow the plan of all training jobs; their launcher is a pod that starts ranks by executing
commands through the API server (`execution`). Jobs of v2beta1 have their own plan (`plan`); their launcher is a Job
(`launcher`) that starts ranks by ssh (`ssh`). `hosts` writes the lists of hosts for both.
"""
