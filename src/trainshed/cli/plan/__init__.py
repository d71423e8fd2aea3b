"""Commands that predict how a job scales and what it costs."""
