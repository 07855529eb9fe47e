"""One entry per kind of stage, and the table of them."""
