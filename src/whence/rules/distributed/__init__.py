"""Training in several processes, and distributed samplers."""
