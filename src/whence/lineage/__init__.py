"""From a tensor to its birthplace: over the tape, through the source, into the loader's samples. Says "unknown" rather than guess."""
