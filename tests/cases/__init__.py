"""Every case from users of upstream, as a test named after what we promise them."""
