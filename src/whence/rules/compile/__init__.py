"""Mistakes in compiled code."""
