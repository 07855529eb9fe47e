"""How many instructions a block takes on a core: counts of what it does, times fitted costs."""
