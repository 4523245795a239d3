"""What it means. A folder a family, a file a rule; `whence.rules.rule` has what they share."""
