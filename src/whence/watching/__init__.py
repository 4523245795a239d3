"""One watch over one program: what is recorded and when, what is looked at in each step, and who is asked when something is wrong."""
