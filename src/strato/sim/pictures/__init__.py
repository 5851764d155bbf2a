"""Pictures of simulations, one file per subject, drawn with matplotlib, which is installed by the extra ``report``."""
