"""What sensors report to: one listener for each, which knows what is to be done about it. What they share is the session's."""
