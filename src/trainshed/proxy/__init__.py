"""A proxy that redirects Google's names to a Trainshed server, for unchanged client programs."""
