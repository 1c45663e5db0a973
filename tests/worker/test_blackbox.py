"""Reading what a dead process recorded."""

import os

from fxworker.blackbox import BlackBox, Entry, parse

HANG = """
Main 0x00007f0000000002

Timeout (0:00:01)!
Thread 0x00007f0000000001 (most recent call first):
  File "/lib/threading.py", line 982 in run

Thread 0x00007f0000000002 (most recent call first):
  File "/p/net.py", line 8 in forward
  File "/p/net.py", line 11 in <module>
"""

CRASH = """
Main 0x00007f0000000002

Fatal Python error: Segmentation fault

Current thread 0x00007f0000000001 (most recent call first):
  File "/p/n\\xe4\\u20ac.py", line 3 in f
  ...

Thread 0x00007f0000000002 (most recent call first):
  File "/p/net.py", line 8 in forward
"""


def test_a_hang_is_the_main_threads_stack():
    record = parse(HANG)
    assert record.cause == ""
    assert record.stack == (Entry("/p/net.py", 8, "forward"), Entry("/p/net.py", 11, "<module>"))


def test_a_crash_is_the_stack_of_the_thread_that_failed():
    record = parse(CRASH)
    assert record.cause == "Segmentation fault"
    assert record.stack == (Entry("/p/nä€.py", 3, "f"),)
    assert record.main == (Entry("/p/net.py", 8, "forward"),)


def test_paths_are_unescaped():
    record = parse(CRASH.rpartition("Thread")[0])
    assert record.stack == (Entry("/p/nä€.py", 3, "f"),)


def test_an_empty_or_garbled_box():
    assert parse("").stack == ()
    assert parse("\0\xff Thread\n  File x\nThread 0xzz (most recent call first):\n").stack == ()


def test_only_the_end_of_a_long_record_is_read():
    box = BlackBox()
    os.write(box.fd, b"x\n" * 500_000)
    os.write(box.fd, b'Cause os._exit(3)\nStack (most recent call first):\n  File "/p/net.py", line 8 in f\n')
    record = box.read()
    box.close()
    assert (record.cause, record.stack) == ("os._exit(3)", (Entry("/p/net.py", 8, "f"),))
