"""What is said of records: reports, and graphs that programs can read."""
