"""From a batch back into its dataset: samples are fetched again, and lines watched, in a child process."""
