"""Tensors in the wrong place."""
