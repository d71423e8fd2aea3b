"""One attempt from the server's side: its folder, its start, its state and its end."""
