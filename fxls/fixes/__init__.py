"""Changes of the text that mend a problem: proposed by syntax, and tried out by tracing the changed text.

What is proposed is only ever shown once it has held: the problem that it is for is gone, and no other one came.
"""
