"""What walks cost and how views are walked."""
