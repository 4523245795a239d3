"""The loop and its updates."""
