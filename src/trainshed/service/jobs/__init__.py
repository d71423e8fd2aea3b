"""Jobs, studies and models: checks a request, stores it, lists it, and explains its state."""
