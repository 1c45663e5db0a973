"""What happened to nodes while a splitter decided about them, and because of which other nodes: written to files.

What is written is set by the environment, once for a process, so that a splitter deep inside of a program can be
looked into.
"""

import json
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

from torch._logging._internal import trace_structured

from fxengine.node import Node

__all__ = [
    "ALL_SUFFIX",
    "DUMP_PREFIX",
    "ENV_FX_NET_ACC_SPLITTER_TRACKER_DUMP_PATH",
    "ENV_FX_NET_ACC_SPLITTER_TRACKER_MODE",
    "ENV_FX_NET_ACC_SPLITTER_TRACKER_TRACKED_NODES",
    "NODES_SUFFIX",
    "TRACKER_DUMP_PATH",
    "TRACKER_MODE",
    "NodeEvent",
    "NodeEventTracker",
]

TRACKER_DUMP_PATH: Final = "_fx_net_tracker"
NODES_SUFFIX: Final = "_nodes.txt"
ALL_SUFFIX: Final = "_all.txt"

ENV_FX_NET_ACC_SPLITTER_TRACKER_MODE: Final = "FX_NET_ACC_SPLITTER_TRACKER_MODE"
ENV_FX_NET_ACC_SPLITTER_TRACKER_DUMP_PATH: Final = "FX_NET_ACC_SPLITTER_TRACKER_DUMP_PATH"
ENV_FX_NET_ACC_SPLITTER_TRACKER_TRACKED_NODES: Final = "FX_NET_ACC_SPLITTER_TRACKER_TRACKED_NODES"

DUMP_PREFIX = os.environ.get(ENV_FX_NET_ACC_SPLITTER_TRACKER_DUMP_PATH, TRACKER_DUMP_PATH)
"""The path of the files, without its end."""

TRACKER_MODE = os.environ.get(ENV_FX_NET_ACC_SPLITTER_TRACKER_MODE, "0")
"""What is written: nothing (0), all events (1), and what led to those of the nodes that are named in the environment
(2), or of all with more than one (3). torch's structured log gets all events in any case."""


class NodeEvent:
    """Something that happened to a node.

    Attributes:
        source: The node.
        desc: What happened, as ``kind|explanation``.
        dep: The node because of which it happened; None if that is the node itself.
    """

    def __init__(self, source: Node, desc: str, dep: Node | None = None) -> None:
        self.source = source
        self.desc = desc
        self.dep = dep

    def to_str(self) -> str:
        """Return the event on one line."""
        return f"{self.source.name}: {self.desc} {self.dep.name if self.dep is not None else '#'}"


class NodeEventTracker:
    """Collects events.

    Attributes:
        tracker_mode: What ``dump`` writes; see ``TRACKER_MODE``.
        dump_prefix: The path of the files, without its end.
        events: The events in their order.
        node_events: For each node's name the places of its events.
        writer: Takes lines where no other function is given.
    """

    def __init__(self, tracker_mode: int, dump_prefix: str) -> None:
        self.tracker_mode = tracker_mode
        self.dump_prefix = dump_prefix
        self.events: list[NodeEvent] = []
        self.node_events: dict[str, list[int]] = {}
        self.writer: Callable[[str], Any] = print

    def add(self, node: Node, desc: str, dep: Node | None = None) -> None:
        """Add an event."""
        self.node_events.setdefault(node.name, []).append(len(self.events))
        self.events.append(NodeEvent(node, desc, dep))

    def print_node(
        self,
        node_name: str,
        recursive: bool = False,
        tab: str = "",
        writer: Callable[[str], Any] | None = None,
    ) -> None:
        """Write the events of a node.

        Args:
            node_name: The node's name.
            recursive: After each event write those of the node because of which it happened, further to the right.
            tab: What each line begins with.
            writer: Takes the lines.
        """
        write = writer or self.writer
        for place in self.node_events.get(node_name, ()):
            event = self.events[place]
            write(tab + event.to_str())
            if recursive and event.dep is not None:
                self.print_node(event.dep.name, recursive=True, tab=f"| {tab}", writer=write)

    def to_dict(self) -> dict[str, list[str]]:
        """Return for each node's name its events, a line each."""
        return {name: [self.events[place].to_str() for place in places] for name, places in self.node_events.items()}

    def print_all(self, writer: Callable[[str], Any] | None = None) -> None:
        """Write the events of all nodes."""
        write = writer or self.writer
        for name in self.node_events:
            write(f"Node: {name}:")
            self.print_node(name, recursive=False, tab="  ", writer=write)

    def dump(self) -> None:
        """Write to files what ``tracker_mode`` says, and everything to torch's structured log."""
        trace_structured(
            "artifact",
            metadata_fn=lambda: {"name": "fx_net_acc_splitter_finder_events", "encoding": "json"},
            payload_fn=lambda: json.dumps(self.to_dict()),
        )
        if self.tracker_mode >= 1:
            lines: list[str] = []
            self.print_all(lines.append)
            self._write(ALL_SUFFIX, lines)
        if self.tracker_mode == 2:
            self._dump_nodes(os.environ.get(ENV_FX_NET_ACC_SPLITTER_TRACKER_TRACKED_NODES, "").split(","))
        elif self.tracker_mode == 3:
            self._dump_nodes(name for name, places in self.node_events.items() if len(places) > 1)

    def _dump_nodes(self, names: Iterable[str]) -> None:
        lines: list[str] = []
        for name in names:
            lines.append(f"===== Tracking node {name} =====")
            self.print_node(name, recursive=True, tab="|-", writer=lines.append)
            lines.append(f"===== End of tracking node {name} =====")
        self._write(NODES_SUFFIX, lines)

    def _write(self, suffix: str, lines: list[str]) -> None:
        Path(self.dump_prefix + suffix).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
