"""How databases of earlier releases become today's; run when a store is opened."""
