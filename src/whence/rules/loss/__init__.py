"""Loss functions and their inputs."""
