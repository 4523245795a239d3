"""The step as a program: each torch call with its operands, its line and its module. Metadata only; no activation is kept."""
