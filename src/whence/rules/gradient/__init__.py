"""Backward passes, graphs and gradients."""
