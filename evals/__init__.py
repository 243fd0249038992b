"""Banks, experiments, statistics and reports."""
