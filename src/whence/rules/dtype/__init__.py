"""Dtype errors and silent dtype mistakes."""
