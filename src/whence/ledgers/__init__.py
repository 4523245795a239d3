"""Records kept across steps, for mistakes that no single step shows."""
