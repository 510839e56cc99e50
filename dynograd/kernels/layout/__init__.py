"""Memory into memory: copies, joins, casts, paddings, views, writes."""
