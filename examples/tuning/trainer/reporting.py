"""Tells whoever tunes this program how good it is, by the package that Google has for it."""

try:
    from hypertune import HyperTune
except ImportError:  # the same report in the same file, where cloudml-hypertune is not installed
    from trainshed_trainer import report_metric
else:

    def report_metric(tag: str, value: float, step: int) -> None:
        """Report one value of a metric."""
        reporter.report_hyperparameter_tuning_metric(
            hyperparameter_metric_tag=tag, metric_value=value, global_step=step
        )

    reporter = HyperTune()  # one for all reports: each call writes everything that it remembers

__all__ = ["report_metric"]
