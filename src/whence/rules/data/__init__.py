"""What the loader delivered."""
