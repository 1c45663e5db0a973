"""How much faster than torch.fx the engine traces: a ratio for each model, then the median and the worst.

This is the part of `engine.py` that measures tracing, with its options.

    python benchmarks/trace.py [--only PART_OF_NAME] [--limit N] [--repeats N]
"""

import sys

import engine

if __name__ == "__main__":
    sys.exit(engine.main(["--operation", "trace", "--each", *sys.argv[1:]]))
