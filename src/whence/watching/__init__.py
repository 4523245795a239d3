"""One watch over one program: what is recorded, what each step checks, and which rules run."""
