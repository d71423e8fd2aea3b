"""Makes a server: imports all parts and connects them."""
