"""Sensors: the only code that touches PyTorch's hooks and modes.

Each sensor observes one thing and can be removed without a trace.
"""
