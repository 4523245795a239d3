"""`whence check`: a look at model, batch and loss before training begins, on copies."""
