"""One attempt from the server's side: its folder, its start, what is known of it, its end."""
