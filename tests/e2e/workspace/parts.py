"""What doubled.py imports; the test changes it on disk."""


def twice(x):
    return x * 2
