"""Lineage outside torch: from an expression back over names, attributes, containers and calls to the one that made it so."""
