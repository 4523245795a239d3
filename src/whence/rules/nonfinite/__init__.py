"""NaN and Inf born in the program."""
