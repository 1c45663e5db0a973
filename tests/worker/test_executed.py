"""Which functions ran: told by the interpreter, for each kind of them."""

import threading

import pytest

from fxworker.executed import watched

TEXT = """\
class Owner:
    @property
    def read(self):
        return 1

def called():
    return (lambda: 2)()

def generator():
    yield 3

async def coroutine():
    return 4

def in_a_thread():
    pass

def never():
    pass
"""


def codes_of(code):
    codes = [each for each in code.co_consts if hasattr(each, "co_code")]
    return [*codes, *(inner for each in codes for inner in codes_of(each))]


@pytest.mark.parametrize("times", [1, 3, 200])
def test_functions_that_ran_are_told_from_those_that_were_only_made(times):
    code = compile(TEXT, "<text>", "exec")
    names = {}
    with watched() as has_run:
        exec(code, names)
        assert {each.co_name for each in codes_of(code) if has_run(each)} == {"Owner"}
        for _ in range(times):
            assert names["Owner"]().read == 1
            names["called"]()
            list(names["generator"]())
            with pytest.raises(StopIteration):
                names["coroutine"]().send(None)
        thread = threading.Thread(target=names["in_a_thread"])
        thread.start()
        thread.join()
        ran = {each.co_name for each in codes_of(code) if has_run(each)}
    assert ran == {"Owner", "read", "called", "<lambda>", "generator", "coroutine", "in_a_thread"}


def test_a_generator_that_was_not_begun_has_not_run():
    code = compile(TEXT, "<text>", "exec")
    names = {}
    with watched() as has_run:
        exec(code, names)
        names["generator"]()
        assert not any(has_run(each) for each in codes_of(code) if each.co_name == "generator")
