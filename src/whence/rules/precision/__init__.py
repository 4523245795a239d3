"""Numerical precision: loss scaling, low-precision weights and gradients."""
