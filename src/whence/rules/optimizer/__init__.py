"""The training loop, optimizers and schedulers."""
