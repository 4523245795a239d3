"""The listeners of the sensors, one for each; the session holds what they share."""
