"""Memory that is kept, and programs that hang."""
