"""What the Python drivers share: the lines of docs/external-drivers.md."""

import json
import os
import sys
import threading
import time
import zlib

CONTRACT = 1

# How often progress is told, in nanoseconds: often enough for the series, too rarely to cost.
PROGRESS_NS = 50_000_000

UNSUPPORTED = 77


def say(**message):
    """Tells the agent something: one JSON object a line, in one write, as threads may say things at once."""
    os.write(1, json.dumps(message).encode() + b"\n")


def hear():
    """The agent's next line; at the end of its input the program has nothing more to do."""
    line = sys.stdin.readline()
    if not line:
        leave(0)
    return json.loads(line)


def leave(code):
    """Ends the program at once, whatever its threads wait for."""
    sys.stderr.flush()
    os._exit(code)


def fail(reason):
    """Ends the program; the agent tells the reason with the failed trial."""
    print(reason, file=sys.stderr)
    leave(1)


def unsupported(reason, hint=""):
    """Ends the program: this cannot be done here."""
    print(reason, file=sys.stderr)
    if hint:
        print(f"hint: {hint}", file=sys.stderr)
    leave(UNSUPPORTED)


class Progress:
    """Counts bytes, and tells the agent now and then."""

    def __init__(self):
        self.bytes = 0
        self._told_ns = 0

    def add(self, length):
        self.bytes += length
        now_ns = time.monotonic_ns()
        if now_ns - self._told_ns >= PROGRESS_NS:
            self._told_ns = now_ns
            say(type="progress", bytes=self.bytes)


class Delivered(Progress):
    """Counts what arrives, and its CRC-32. One thread may add while another says that it is done."""

    def __init__(self):
        super().__init__()
        self.crc32 = 0
        self._lock = threading.Lock()

    def add(self, data):
        with self._lock:
            self.crc32 = zlib.crc32(data, self.crc32)
            super().add(len(data))

    def done(self, at_ns, **more):
        with self._lock:
            say(type="done", at_ns=at_ns, bytes=self.bytes, crc32=self.crc32, **more)


class Messages:
    """The messages of a transfer: one again and again, the last one cut short."""

    def __init__(self, order):
        with open(order["message_file"], "rb") as file:
            self._message = file.read()
        self.left = order["size_bytes"]

    def next(self):
        piece = self._message if self.left >= len(self._message) else self._message[: self.left]
        self.left -= len(piece)
        return piece


# What each end states of its stack, beside the congestion control: docs/external-drivers.md.
STACK_FACTS = {
    "sender": ["initial_window", "slow_start_exit", "pacing", "packet_size", "cipher", "threads", "offloads"],
    "receiver": ["threads", "offloads", "acknowledgements", "flow_control"],
}


def stack_facts(role, stack):
    """Those facts of the stack that an end states, under their whole names."""
    return {f"{name}.{role}": stack[name] for name in STACK_FACTS[role]}


def window_bytes(order):
    """The flow-control window that all drivers use; without a rate, 2 Gbit for each second of round trip."""
    path = order["path"]
    return path["window_bytes"] or max(1 << 20, 2_000_000_000 // 8 * path["round_trip_delay_ns"] // 1_000_000_000)
