"""The step as a program: each torch call with its operands, its line and its module.

The tape holds metadata only; no activation is kept.
"""
