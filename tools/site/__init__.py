"""Makes the documentation site: `make site`, or `python -m tools.site.build`. Needs the extra `docs`."""
