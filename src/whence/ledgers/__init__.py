"""What is kept over the steps, so that mistakes which no single step shows can be seen."""
