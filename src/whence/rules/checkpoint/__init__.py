"""What is saved, and what comes back."""
