"""Shape errors and silent shape mistakes."""
