"""Pages for people, made beside the simple index."""
