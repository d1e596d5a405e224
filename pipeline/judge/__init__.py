"""From evidence to a verdict: one table, and the only place that decides."""
