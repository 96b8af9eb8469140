"""Reading upstream: fetching pages, and finding the wheels that they list."""
