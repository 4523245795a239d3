"""What is seen. The only code that touches torch's hooks and modes; each sensor sees one thing and can be taken off again."""
