"""The process beside the user's torch: it reads requests, runs the engine, and writes reports."""
