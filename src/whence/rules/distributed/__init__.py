"""Several processes, and samplers made for them."""
