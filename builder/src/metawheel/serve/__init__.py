"""`metawheel serve`: our index first, then another, behind one URL. Needs the extra `serve`."""
