"""The rules: one folder per family, one file per rule; `whence.rules.rule` registers them."""
