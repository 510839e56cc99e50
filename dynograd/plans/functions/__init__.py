"""`autograd.Function`s in compiled steps: see `recorded` for the record, `walked` for a walk, `again` for a walk that ends."""
