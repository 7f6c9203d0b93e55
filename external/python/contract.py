"""Protocol of external drivers (docs/external-drivers.md), shared by the Python drivers."""

import collections
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

CONTRACT = 2

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


# Most answers in a line, which has at most 64 KiB.
ANSWERS_IN_LINE = 1000


class Answers:
    """Departures of messages and arrivals of their answers, reported some at a time."""

    def __init__(self, to):
        self._to = to
        self._times = []
        self._told_ns = time.monotonic_ns()

    def add(self, left_ns, at_ns):
        self._times.append([left_ns, at_ns])
        if at_ns - self._told_ns >= PROGRESS_NS or len(self._times) == ANSWERS_IN_LINE:
            self.tell()

    def tell(self):
        if self._times:
            say(type="answers", to=self._to, times_ns=self._times)
        self._times = []
        self._told_ns = time.monotonic_ns()


class Requests:
    """Requests of an exchange at the connecting end, over a transport that keeps their order."""

    def __init__(self, order):
        exchange = order["exchange"]
        self._left = exchange["requests"]
        self._rate = exchange["requests_per_second"]
        self._answer_bytes = exchange["answer_bytes"]
        self._missing = self._left * self._answer_bytes
        self._outstanding = exchange["outstanding"]
        self._messages = Messages(order)
        self._waiting = collections.deque()
        self._sent = 0
        self._progress = Progress()
        self._answers = Answers("requests")
        self.crc32 = 0

    def begin(self, connected_ns):
        self._connected_ns = connected_ns

    def has_room(self):
        """Whether one more request may wait for its answer."""
        return self._left > 0 and len(self._waiting) < self._outstanding

    def due_ns(self):
        """Returns the time at which the next request is to leave by the schedule; 0 without a schedule."""
        return self._connected_ns + int(self._sent * 1e9 / self._rate) if self._rate else 0

    def take_due(self):
        """Yields the requests that leave now."""
        while self.has_room() and self.due_ns() <= time.monotonic_ns():
            self._waiting.append(time.monotonic_ns())
            self._left -= 1
            self._sent += 1
            piece = self._messages.next()
            yield piece
            self._progress.add(len(piece))

    def answered(self, data):
        """Counts received bytes of answers; returns what comes after the last answer."""
        now_ns = time.monotonic_ns()
        piece = data[: self._missing]
        before = -(-self._missing // self._answer_bytes)
        self._missing -= len(piece)
        self.crc32 = zlib.crc32(piece, self.crc32)
        for _ in range(before - -(-self._missing // self._answer_bytes)):
            self._answers.add(self._waiting.popleft(), now_ns)
        if self.is_complete():
            self._answers.tell()
        return data[len(piece) :]

    def is_complete(self):
        return self._missing == 0


class Responder:
    """Answers of an exchange at the listening end; of a bulk transfer there are none."""

    def __init__(self, order):
        self._exchange = order["exchange"]
        self._size = order["size_bytes"]
        self._message_bytes = order["message_bytes"]
        self._answered = 0
        if self._exchange:
            with open(self._exchange["answer_file"], "rb") as file:
                self.answer = file.read()

    def due(self, delivered_bytes):
        """Returns the answers that are due when this much was delivered."""
        if not self._exchange:
            return []
        is_complete = delivered_bytes >= self._size
        whole = self._exchange["requests"] if is_complete else delivered_bytes // self._message_bytes
        count, self._answered = whole - self._answered, whole
        return [self.answer] * count


class Probe:
    """Messages of the probe at the connecting end, over a connection of their own that keeps their order and on which
    `send` sends."""

    def __init__(self, order, send):
        self._plan = order["probe"]
        self._send = send
        self._message = bytes(self._plan["message_bytes"])
        self._idle_left = self._plan["idle_messages"]
        self._idle = Answers("idle_probe")
        self._load = Answers("probe")
        self._bytes = 0
        self._sent = 0
        self._answered = 0
        self._over_ns = None

    def open(self):
        """Begins to probe the idle path: the connection can carry data."""
        self._send(bytes.fromhex(self._plan["token"]))
        self._go_on()

    def _go_on(self):
        """Sends the next message before the transfer, if there is one."""
        if self._idle_left > 0:
            self._left_ns = time.monotonic_ns()
            self._send(self._message)
        else:
            self._idle.tell()
            self._idle_left = -1
            say(type="probed")

    def received(self, length):
        """Counts received bytes of answers."""
        now_ns = time.monotonic_ns()
        self._bytes += length
        while self._bytes >= len(self._message):
            self._bytes -= len(self._message)
            if self._idle_left > 0:
                self._idle_left -= 1
                self._idle.add(self._left_ns, now_ns)
                self._go_on()
                continue
            self._load.add(self._due_ns(self._answered), now_ns)
            self._answered += 1
            if self._over_ns or self._plan["interval_ns"] > PROGRESS_NS:
                self._load.tell()

    def begin(self, connected_ns):
        """Begins the schedule under load; returns whether there is one."""
        self._connected_ns = connected_ns
        return self._plan["interval_ns"] is not None

    def _due_ns(self, number):
        return self._connected_ns + (number + 1) * self._plan["interval_ns"]

    def due_ns(self):
        """Returns the time at which the next message under load is to leave."""
        return self._due_ns(self._sent)

    def send_due(self):
        """Sends the next message under load, which is due; returns whether it was due before the end of the transfer."""
        if self._over_ns is not None and self.due_ns() >= self._over_ns:
            return False
        self._sent += 1
        self._send(self._message)
        return True

    def end(self, over_ns):
        """Ends the schedule under load: the transfer is over."""
        self._over_ns = over_ns


def sleep_until(due_ns):
    time.sleep(max(0, due_ns - time.monotonic_ns()) / 1e9)


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
