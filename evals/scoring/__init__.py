"""Scores of banks: settings, features, numbers with their errors and signatures."""
