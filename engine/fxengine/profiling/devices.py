"""The devices that a model can be profiled on, and what each is capable of, measured rather than looked up.

The CPU is always there. An accelerator is whatever ``torch.accelerator`` of this build can reach (cuda, xpu, mps,
...). Asking which there are does not start them: that may be done in a process that must stay free of device
contexts, such as one that forks.
"""

import itertools
import os
import platform
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

import torch

__all__ = [
    "Clock",
    "DeviceInfo",
    "Peak",
    "available_devices",
    "best_of",
    "busy_processors",
    "calibrate",
    "clock_for",
    "current",
    "describe_device",
    "synchronize",
]

_ACCELERATORS = ("cuda", "xpu", "mps")

_COUNTED = 10_000_000
"""Cycles of the wait by which a device's own are counted: some milliseconds."""

_SMALLEST = 128
"""The side of the smallest matrix product that is taken for a device's peak."""


@dataclass(frozen=True, slots=True)
class DeviceInfo:
    """A device as it is shown to people.

    Attributes:
        device: As torch writes it: ``cpu``, ``cuda:0``.
        name: The maker's name for it.
        threads: How many threads torch uses on it; None for accelerators.
        memory: Bytes of memory, as far as known.
    """

    device: str
    name: str
    threads: int | None
    memory: int | None


@dataclass(frozen=True, slots=True)
class Peak:
    """What a device was seen to do at best.

    Attributes:
        flops: Floating point operations a second, in a large matrix product.
        bandwidth: Bytes a second, in a large copy, reads and writes together.
    """

    flops: float
    bandwidth: float


def available_devices() -> tuple[str, ...]:
    """Return the devices of this process's torch, the CPU first, without initialising any."""
    found = ["cpu"]
    for kind in _ACCELERATORS:
        backend = _backend(kind)
        if backend is None or not backend.is_available():
            continue
        count = backend.device_count() if hasattr(backend, "device_count") else 1
        found += [kind] if kind == "mps" else [f"{kind}:{index}" for index in range(count)]
    return tuple(found)


def describe_device(device: torch.device) -> DeviceInfo:
    """Return name, threads and memory of ``device``; starts it if it is an accelerator."""
    if device.type == "cpu":
        return DeviceInfo("cpu", _cpu_name(), torch.get_num_threads(), _cpu_memory())
    backend = _backend(device.type)
    if device.type == "mps":
        memory = getattr(backend, "recommended_max_memory", lambda: None)()
        return DeviceInfo("mps", platform.processor() or "Apple GPU", None, memory)
    properties: Any = backend.get_device_properties(device) if backend is not None else None
    name = getattr(properties, "name", device.type)
    return DeviceInfo(str(device), name, None, getattr(properties, "total_memory", None))


def current(device: torch.device) -> AbstractContextManager[object]:
    """Return a context in which ``device`` is the one of its kind that work goes to where none is named."""
    choose = getattr(_backend(device.type), "device", None)
    return nullcontext() if choose is None else choose(device)


def synchronize(device: torch.device) -> None:
    """Wait until everything that was started on ``device`` is done."""
    backend = _backend(device.type)
    if backend is None:
        return
    if device.type == "mps":
        backend.synchronize()
    else:
        backend.synchronize(device)


class Clock(Protocol):
    """Measures the time between marks on a device.

    ``mark`` is cheap and may be called between any two operations; the times are only known after ``read``, which
    waits for the device.

    Attributes:
        holds: Whether the device can be made to wait, so that what is between two marks is its own work alone.
    """

    holds: bool

    def hold(self, seconds: float) -> None:
        """Keep the device busy for that long, while the host puts what comes next into its queue."""
        ...

    def mark(self) -> None:
        """Note this moment of the device's work."""
        ...

    def read(self) -> list[float]:
        """Return the seconds between each two marks that follow each other, and forget them."""
        ...


class HostClock:
    """The clock of a device that has finished when the call returns: the CPU."""

    holds = False

    def __init__(self) -> None:
        self._marks: list[int] = []
        self.mark: Callable[[], None] = lambda append=self._marks.append, now=time.perf_counter_ns: append(now())

    def hold(self, seconds: float) -> None:
        """Nothing: host and device are one."""

    def read(self) -> list[float]:
        """Return the seconds between marks."""
        marks = self._marks
        spans = [(after - before) * 1e-9 for before, after in itertools.pairwise(marks)]
        marks.clear()
        return spans


class EventClock:
    """The clock of an accelerator with events: they are recorded in its own queue, so nothing has to wait meanwhile.

    A device that is faster than its host stands idle between two marks until the host has told it what to do, and that
    would be measured too. Held back, it finds mark, work and mark in its queue.
    """

    def __init__(
        self, device: torch.device, event: Callable[..., Any], wait: Callable[[int], object] | None = None
    ) -> None:
        """Measure with what ``event`` makes; ``wait`` keeps the device busy for a number of its cycles."""
        self.holds = wait is not None
        self._device = device
        self._event = event
        self._wait = wait
        self._marks: list[Any] = []
        self._cycles = self._frequency() if wait is not None else 0.0

    def hold(self, seconds: float) -> None:
        """Put a wait into the device's queue, where it has one."""
        if self._wait is not None:
            self._wait(int(seconds * self._cycles))

    def mark(self) -> None:
        """Put an event into the device's queue."""
        event = self._event(enable_timing=True)
        event.record()
        self._marks.append(event)

    def read(self) -> list[float]:
        """Wait for the device and return the seconds between marks."""
        synchronize(self._device)
        marks = self._marks
        spans = [before.elapsed_time(after) * 1e-3 for before, after in itertools.pairwise(marks)]
        marks.clear()
        return spans

    def _frequency(self) -> float:
        """Return the cycles a second of the device, by the shortest of some waits."""
        assert self._wait is not None
        for _ in range(4):
            self.mark()
            self._wait(_COUNTED)
        self.mark()
        return _COUNTED / min(self.read())


def clock_for(device: torch.device) -> Clock:
    """Return the clock that is honest on ``device``, which has to be the current one of its kind."""
    backend = _backend(device.type)
    event = getattr(backend, "Event", None)
    return HostClock() if event is None else EventClock(device, event, getattr(backend, "_sleep", None))


def calibrate(device: torch.device, dtype: torch.dtype = torch.float32, *, seconds: float = 0.3) -> Peak:
    """Return the peak of ``device`` for numbers of a floating type, measured for about ``seconds``.

    The arithmetic peak is the best rate of a square matrix product, large enough to fill the device; the bandwidth
    that of a copy too large for any cache. Both are what this machine really gives, other programs and throttling
    included.
    """
    side = 1024 if device.type == "cpu" else 8192
    while side > _SMALLEST and _product_time(device, dtype, side, 0.0) > seconds:  # A processor without half numbers.
        side //= 2
    product = _product_time(device, dtype, side, seconds / 2)
    count = (1 << 24) if device.type == "cpu" else (1 << 28)
    source = torch.ones(count, device=device)
    target = torch.empty_like(source)
    copy = _best_time(lambda: target.copy_(source), device, seconds / 2)
    return Peak(2 * side**3 / product, 2 * 4 * count / copy)


def _product_time(device: torch.device, dtype: torch.dtype, side: int, seconds: float) -> float:
    a = torch.randn(side, side, device=device).to(dtype)
    b = torch.randn(side, side, device=device).to(dtype)
    return _best_time(lambda: torch.mm(a, b), device, seconds)


def best_of(first: Peak, second: Peak) -> Peak:
    """Return the better of two calibrations, each figure for itself."""
    return Peak(max(first.flops, second.flops), max(first.bandwidth, second.bandwidth))


def _best_time(work: Callable[[], Any], device: torch.device, seconds: float) -> float:
    """Return the time of the fastest call of ``work`` among those that fit into ``seconds``, but for the first."""
    work()
    clock = clock_for(device)
    spans: list[float] = []
    end = time.perf_counter() + seconds
    while not spans or time.perf_counter() < end:
        clock.mark()
        work()
        clock.mark()
        spans += clock.read()
    return min(spans)


def _backend(kind: str) -> ModuleType | None:
    return getattr(torch, kind, None) if kind in _ACCELERATORS else None


def _cpu_name() -> str:
    """Return the processor's name as its maker writes it."""
    if sys.platform == "linux":
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def busy_processors() -> float:
    """Return how many processors were busy on average in the last minute; 0 where the system does not say."""
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0


def _cpu_memory() -> int | None:
    if sys.platform != "linux":
        return None
    for line in Path("/proc/meminfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("MemTotal"):
            return int(line.split()[1]) * 1024
    return None
