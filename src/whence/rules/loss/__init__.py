"""What is being minimised."""
