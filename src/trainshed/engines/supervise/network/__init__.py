"""Creates the network of an attempt and connects it to other machines."""
