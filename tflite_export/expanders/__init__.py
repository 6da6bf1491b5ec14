"""One file per language that expands a container. See `docs/container.md`."""
