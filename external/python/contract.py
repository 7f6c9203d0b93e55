"""Protocol of external drivers (docs/external-drivers.md), shared by the Python drivers."""

import errno
import gc
import json
import os
import select
import signal
import sys
import threading
import time
import zlib

CONTRACT = 1

# Interval of progress reports, in nanoseconds: short enough for the series, too long to cost CPU time.
PROGRESS_NS = 50_000_000

UNSUPPORTED = 77


def say(**message):
    """Sends a line to the agent: one JSON object, in one write, because several threads may call this."""
    os.write(1, json.dumps(message).encode() + b"\n")


def serve(description, run):
    """Answers the agent's requests until the end of its input: `describe` with `description`, each order in a process of
    its own with `run(order)`. An interpreter and its modules are so loaded once for all trials (capability `repeat`)."""
    # Pages that the garbage collector does not touch stay shared with the children.
    gc.freeze()
    trial = None
    for line in requests(lambda: trial):
        if line is None:
            trial.fail()
        elif trial is None:
            order = json.loads(line)
            if order["type"] == "describe":
                say(type="description", contract=CONTRACT, **description)
            else:
                trial = Trial(order, run)
        elif json.loads(line)["type"] == "end":
            trial.end()
            trial = None
            say(type="over")
        else:
            trial.tell(line)
    leave(0)


def requests(trial):
    """Yields the agent's lines, and `None` when the process of `trial()` has ended by itself."""
    rest = b""
    while True:
        current = trial()
        readable, _, _ = select.select([0] + ([current.ended] if current else []), [], [])
        if 0 not in readable:
            yield None
            continue
        data = os.read(0, 1 << 16)
        if not data:
            return
        *lines, rest = (rest + data).split(b"\n")
        yield from lines


class Trial:
    """Process of a trial: a copy of this one, with a standard input of its own."""

    def __init__(self, order, run):
        own_input, self.input = os.pipe()
        # The kernel closes it when the process ends.
        self.ended, alive = os.pipe()
        self.process = os.fork()
        if self.process == 0:
            os.dup2(own_input, 0)
            for descriptor in (own_input, self.input, self.ended):
                os.close(descriptor)
            run(order)
            leave(0)
        os.close(own_input)
        os.close(alive)

    def tell(self, line):
        try:
            os.write(self.input, line + b"\n")
        except BrokenPipeError:
            # It has ended, which `ended` tells.
            pass

    def wait(self):
        os.close(self.input)
        os.close(self.ended)
        return os.waitstatus_to_exitcode(os.waitpid(self.process, 0)[1])

    def end(self):
        """Ends the process, as the end of its input does."""
        os.kill(self.process, signal.SIGKILL)
        self.wait()

    def fail(self):
        """Ends this program as the process has ended."""
        code = self.wait()
        if code < 0:
            fail(f"the trial's process was ended by signal {-code}")
        leave(code)


def hear():
    """Returns the agent's next line. Ends the program at the end of its input."""
    line = sys.stdin.readline()
    if not line:
        leave(0)
    return json.loads(line)


def leave(code):
    """Ends the program at once, with all its threads."""
    sys.stderr.flush()
    os._exit(code)


def fail(reason):
    """Ends the program. The result of the failed trial contains the reason."""
    print(reason, file=sys.stderr)
    leave(1)


def unsupported(reason, hint=""):
    """Ends the program with the outcome *unsupported*."""
    print(reason, file=sys.stderr)
    if hint:
        print(f"hint: {hint}", file=sys.stderr)
    leave(UNSUPPORTED)


def bind(sock, order):
    """Binds a socket to the address of this end, and to the first free one of the ports of the order."""
    first, last = order.get("ports") or (0, 0)
    for port in range(first, last + 1):
        try:
            return sock.bind((order["local"], port))
        except OSError as error:
            if error.errno != errno.EADDRINUSE or port == last:
                raise


class Progress:
    """Counts bytes and reports progress to the agent."""

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
    """Counts received bytes and computes their CRC-32. One thread may call `add` while another calls `done`."""

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
    """Messages of a transfer: one message repeatedly, the last time a prefix of it."""

    def __init__(self, order):
        with open(order["message_file"], "rb") as file:
            self._message = file.read()
        self.left = order["size_bytes"]

    def next(self):
        piece = self._message if self.left >= len(self._message) else self._message[: self.left]
        self.left -= len(piece)
        return piece


# Facts that each end states about its stack, besides the congestion control: docs/external-drivers.md.
STACK_FACTS = {
    "sender": ["initial_window", "slow_start_exit", "pacing", "packet_size", "first_flight", "cipher", "crypto",
               "threads", "offloads"],
    "receiver": ["threads", "offloads", "acknowledgements", "flow_control"],
}


def stack_facts(role, stack):
    """Returns the facts about the stack that this end states, under their full names."""
    return {f"{name}.{role}": stack[name] for name in STACK_FACTS[role]}


def window_bytes(order):
    """Returns the flow-control window that all drivers use; without a rate 2 Gbit per second of round trip."""
    path = order["path"]
    return path["window_bytes"] or max(1 << 20, 2_000_000_000 // 8 * path["round_trip_delay_ns"] // 1_000_000_000)
