"""What a rewrite did as one page, and as pictures."""
