"""What exists because PyTorch has it: namespaces of things that are done otherwise here. `import_paths` says under which names they are imported."""
