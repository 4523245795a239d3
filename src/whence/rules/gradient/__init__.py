"""How error flows back."""
