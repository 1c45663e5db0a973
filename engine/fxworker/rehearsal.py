"""A trace ahead of need, for nothing but that the next one is faster.

In a process that was forked, whatever is touched first is copied, looked up or parsed first: a trace takes half as long
again as the same one after it. So the request is read once more, text and all, the models that were built ahead are
traced once, and all is put back: the models, the random generators, the names of the file, what was printed and what
was warned of. User code can keep more than that. What it keeps of a trace would be wrong in the next one, so a process
with that in it is of no use.
"""

import contextlib
import gc
import os
import warnings
from collections.abc import Generator

from fxengine.proxy import SymbolicValue
from fxworker.children import disarm_timers, flush_output
from fxworker.encoding import decode, encode
from fxworker.loading import Document
from fxworker.prepared import Prepared
from fxworker.tracing import rehearse
from fxworker.wire import TraceRequest


def is_rehearsed(request: TraceRequest, document: Document, prepared: Prepared) -> bool:
    """Trace the models that were built ahead and put everything back; False where something of the trace stays.

    Raises:
        BaseException: Whatever user code raises where nobody expects it.
    """
    namespace = prepared.loaded.namespace
    before = dict(namespace)
    with _unheard():
        again = decode(encode(request))
        assert isinstance(again, TraceRequest)
        document.read_anew(again)
        rehearse(request, document, prepared)
    namespace.clear()
    namespace.update(before)
    disarm_timers()
    # The first time, generators are closed that had not come to their end; the second, what they held is let go.
    gc.collect()
    gc.collect()
    stays = any(issubclass(type(each), SymbolicValue) for each in gc.get_objects())
    gc.freeze()
    return not stays


@contextlib.contextmanager
def _unheard() -> Generator[None]:
    """Let nothing be printed, and let what is warned of once be warned of again."""
    flush_output()
    nothing = os.open(os.devnull, os.O_WRONLY)
    kept = [os.dup(1), os.dup(2)]
    try:
        os.dup2(nothing, 1)
        os.dup2(nothing, 2)
        with warnings.catch_warnings():
            yield
    finally:
        flush_output()
        os.dup2(kept[0], 1)
        os.dup2(kept[1], 2)
        for each in (*kept, nothing):
            os.close(each)
