"""Tensors on the wrong device, and tensors that no module owns."""
