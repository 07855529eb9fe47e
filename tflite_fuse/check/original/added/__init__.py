"""Equivalent operators that passes may have put in place of the original's."""
