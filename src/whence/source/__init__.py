"""The user's program as text: which line ran, what stands there, where a name was defined. Runs none of it, knows no torch."""
