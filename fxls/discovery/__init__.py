"""What in a file can be traced, found by syntax alone."""
