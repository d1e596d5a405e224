"""HTTP itself: middleware, errors, keys and quotas, what comes in, what goes out, and its description."""
