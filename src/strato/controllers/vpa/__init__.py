"""VerticalPodAutoscalers: a recommender, and resizing of running pods (spec utilisation 6.1).

`targets` finds the pods of an autoscaler, `recommendations` makes its status from estimates, `checkpoints` keeps
histograms across restarts, `recommender` reads metrics and writes. `strato.advice` computes the estimates.
"""

from strato.controllers.vpa.recommender import VerticalAutoscalerController

__all__ = ["VerticalAutoscalerController"]
