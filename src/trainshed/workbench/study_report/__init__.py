"""A study as one HTML page and one CSV file; optuna and plotly draw, and come with extras."""
