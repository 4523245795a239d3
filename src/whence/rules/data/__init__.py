"""Mistakes in the data that a loader delivers."""
