"""What the launcher needs to know of a job's processes: which one ended first, what the others were doing, and what is left of them."""
