"""Metrics measured against known damage of a known language."""
