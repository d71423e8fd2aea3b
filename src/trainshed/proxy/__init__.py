"""Client programs unchanged: a proxy that leads Google's names to a Trainshed server."""
