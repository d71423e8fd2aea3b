"""The goodput of jobs, from the events that the store has of them."""
