"""What passes are run and combined by."""
