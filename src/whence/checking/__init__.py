"""`whence check`: checks of model, batch and loss before training, on copies."""
