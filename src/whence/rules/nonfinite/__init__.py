"""NaN and Inf that appear during training."""
