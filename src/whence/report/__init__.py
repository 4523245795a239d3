"""Reports: each file renders the same findings in another form. Nothing here imports torch."""
