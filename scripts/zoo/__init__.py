"""A zoo of small networks, and every method tried on each of them."""
