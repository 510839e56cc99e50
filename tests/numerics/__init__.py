"""How exact ops are, and how random random numbers: see __main__."""
