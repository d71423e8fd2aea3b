"""What jobs cost and what machines were used for: prices, accounting and sums."""
