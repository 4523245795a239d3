"""Types that do not fit, or were lost on the way."""
