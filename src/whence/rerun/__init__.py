"""Run code again. The program's own Python runs only in a child process."""
