"""Loops that a program writes itself around its data: what they go through, in which order, and how often."""
