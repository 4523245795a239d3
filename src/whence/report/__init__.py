"""How it is told: each file renders the same plain findings in another form. Nothing here imports torch."""
