"""QUIC of aioquic (https://github.com/aiortc/aioquic) as a driver of Regatta.

One connection with one stream: the token, then all messages, and in an exchange an answer to each. When the
receiver has everything, it answers with the number of bytes received, in eight bytes. The probe has a
connection of its own with one stream. aioquic buffers all that is written in memory. To bound
that memory, the driver writes no more than the path can use. The sender does not close before the
acknowledgement has arrived.
"""

import asyncio
import socket
import sys
import time

import aioquic
from aioquic import tls
from aioquic.asyncio import QuicConnectionProtocol
from aioquic.asyncio.server import QuicServer
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import QuicConnection
from aioquic.quic.congestion import cubic, reno
from aioquic.quic.congestion.base import K_INITIAL_WINDOW
from aioquic.quic.events import ConnectionTerminated, HandshakeCompleted, StreamDataReceived
from aioquic.tls import CipherSuite, Group

# Otherwise it would be loaded in the first handshake and count as set-up time.
import cryptography.hazmat.backends.openssl.backend  # noqa: F401
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from cryptography.hazmat.primitives.serialization import Encoding

import contract

ALPN = ["regatta"]
TOKEN_BYTES = 16
ACKNOWLEDGEMENT_BYTES = 8

# Whether aioquic and asyncio are left as they are, instead of set as the other stacks (option `profile`).
LIBRARY = "--profile=library" in sys.argv[1:]

# Receive buffer of the socket, in bytes; the kernel may grant less.
RECEIVE_BUFFER = 4 << 20

# Longest datagram that is read, in bytes. asyncio allocates 256 KiB for each datagram, which the C library maps,
# remaps and unmaps: three system calls and a page fault for each packet.
LONGEST_DATAGRAM = 65_536

CIPHERS = {
    CipherSuite.AES_128_GCM_SHA256: "AES-128-GCM",
    CipherSuite.AES_256_GCM_SHA384: "AES-256-GCM",
    CipherSuite.CHACHA20_POLY1305_SHA256: "ChaCha20-Poly1305",
}

CONGESTION_CONTROLS = {
    cubic.CubicCongestionControl: "cubic",
    reno.RenoCongestionControl: "reno",
}


def configure(order, is_client):
    algorithm = order["congestion_control"] or QuicConfiguration().congestion_control_algorithm
    if algorithm not in CONGESTION_CONTROLS.values():
        contract.unsupported(
            f"aioquic has no congestion control `{algorithm}`",
            f"use one of `{'`, `'.join(CONGESTION_CONTROLS.values())}`",
        )
    header = 48 if ":" in order["local"] else 28
    bench = {} if LIBRARY else {
        # aioquic would offer AES-256 first; all stacks use the same cipher.
        "cipher_suites": [CipherSuite.AES_128_GCM_SHA256],
        "max_data": contract.window_bytes(order),
        # aioquic does not search for the path's packet size, which is known.
        "max_datagram_size": max(1200, min(order["path"]["mtu_bytes"], 1500) - header),
        "max_stream_data": contract.window_bytes(order),
    }
    configuration = QuicConfiguration(
        alpn_protocols=ALPN,
        congestion_control_algorithm=algorithm,
        # The transfer may stall on a bad path, but not beyond its deadline.
        idle_timeout=order["deadline_ns"] / 1e9 + 60,
        is_client=is_client,
        **bench,
    )
    if is_client:
        configuration.server_name = order["tls"]["server_name"]
        # Only the run's certificate is trusted.
        configuration.load_verify_locations(cafile=order["tls"]["certificate_file"])
    else:
        configuration.load_cert_chain(order["tls"]["certificate_file"], order["tls"]["key_file"])
    return configuration


async def open_endpoint(protocol, order):
    """Opens a UDP socket for `protocol` and returns it."""
    sock = socket.socket(socket.AF_INET6 if ":" in order["local"] else socket.AF_INET, socket.SOCK_DGRAM)
    if not LIBRARY:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER)
    contract.bind(sock, order)
    transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(lambda: protocol, sock=sock)
    if not LIBRARY:
        transport.max_size = LONGEST_DATAGRAM
    return sock


class Context(tls.Context):
    """TLS with the one group of key exchange that all stacks use. aioquic has no option for it and would offer
    secp256r1 first."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self._supported_groups = [Group.X25519]


if not LIBRARY:
    tls.Context = Context


class Protocol(QuicConnectionProtocol):
    """Functions that both ends share."""

    done = False

    def facts(self, role):
        """Returns facts read back from aioquic. They are in undocumented attributes, so the
        installed version is pinned."""
        algorithm = type(self._quic._loss._cc)
        suite = self._quic.tls.key_schedule.cipher_suite
        configuration = self._quic._configuration
        header = 48 if ":" in self.order["local"] else 28
        stack = {
            "initial_window": f"{K_INITIAL_WINDOW} packets",
            "slow_start_exit": "HyStart",
            "pacing": "by the stack",
            "first_flight": f"{configuration.max_datagram_size + header} B",
            "packet_size": f"{configuration.max_datagram_size + header} B, fixed",
            "cipher": CIPHERS.get(suite, suite.name),
            "crypto": "OpenSSL",
            "threads": "1, protocol in it",
            "offloads": "none",
            "acknowledgements": f"each packet within {self._quic._ack_delay * 1000:g} ms",
            "flow_control": f"stream {configuration.max_stream_data} B, connection {configuration.max_data} B",
        }
        return {
            f"congestion_control.{role}": CONGESTION_CONTROLS.get(algorithm, algorithm.__name__),
            "tls.version": "1.3",
            "tls.cipher_suite": f"TLS_{suite.name}",
            "tls.key_exchange": "secp256r1" if LIBRARY else "X25519",
            "tls.certificate": self.certificate(),
        } | contract.stack_facts(role, stack)

    def certificate(self):
        """Returns the kind of the server's key and the size of its chain."""
        configuration = self._quic._configuration
        chain = [self._quic.tls._peer_certificate, *self._quic.tls._peer_certificate_chain]
        if not configuration.is_client:
            chain = [configuration.certificate, *configuration.certificate_chain]
        key = chain[0].public_key()
        kind = f"ECDSA P-{key.curve.key_size}" if isinstance(key, EllipticCurvePublicKey) else type(key).__name__
        return f"{kind}, {sum(len(it.public_bytes(Encoding.DER)) for it in chain)} B"

    def on_end(self, event):
        if not self.done:
            contract.fail(
                f"aioquic ended the connection: error {event.error_code:#x} {event.reason_phrase}".rstrip()
            )


async def sleep_until(due_ns):
    """Sleeps in a thread: asyncio would wake up to a millisecond late."""
    await asyncio.to_thread(contract.sleep_until, due_ns)


class Sender(Protocol):
    def begin(self, order):
        self.order = order
        self.messages = contract.Messages(order)
        self.requests = contract.Requests(order) if order["exchange"] else None
        self.probe = None
        self.answered = asyncio.Event()
        self.sent = contract.Progress()
        self.most = contract.window_bytes(order)
        self.answer = b""
        self.stream = None

    def start(self, port):
        self.started_ns = time.monotonic_ns()
        self.connect((self.order["peer"], port))

    def quic_event_received(self, event):
        if isinstance(event, HandshakeCompleted):
            now_ns = time.monotonic_ns()
            contract.say(type="connected", started_ns=self.started_ns, at_ns=now_ns)
            if self.probe and self.probe.begin(now_ns):
                self.probing = asyncio.ensure_future(self.send_probe())
            self.stream = self._quic.get_next_available_stream_id()
            token = bytes.fromhex(self.order["token"])
            if self.order["finish"] == "abandon":
                messages, self.messages = self.messages, contract.Messages(self.order | {"size_bytes": 0})
                self._quic.send_stream_data(self.stream, token)
                self.task = asyncio.ensure_future(self.abandon(messages))
                return
            if self.requests:
                self.messages.left = 0
                self.requests.begin(now_ns)
                self.task = asyncio.ensure_future(self.ask(token))
                return
            self._quic.send_stream_data(self.stream, token, end_stream=self.messages.left == 0)
        elif isinstance(event, StreamDataReceived) and not self.done:
            self.answer += self.requests.answered(event.data) if self.requests else event.data
            self.answered.set()
            if len(self.answer) >= ACKNOWLEDGEMENT_BYTES:
                self.finish(time.monotonic_ns())
        elif isinstance(event, ConnectionTerminated):
            self.on_end(event)

    def finish(self, now_ns):
        self.done = True
        if self.probe:
            self.probe.end(now_ns)
        loss = self._quic._loss
        contract.say(
            type="done",
            at_ns=now_ns,
            bytes=int.from_bytes(self.answer[:ACKNOWLEDGEMENT_BYTES], "big"),
            crc32=self.requests.crc32 if self.requests else None,
            facts=self.facts("sender"),
            metrics={"smoothed_rtt_last_ns": loss._rtt_smoothed * 1e9, "min_rtt_ns": loss._rtt_min * 1e9},
        )

    async def ask(self, opening):
        """Sends all requests when they are due, the first one together with the token."""
        if self.requests.is_complete():
            self._quic.send_stream_data(self.stream, opening)
            self.transmit()
        while not self.requests.is_complete():
            self.answered.clear()
            for piece in self.requests.take_due():
                self._quic.send_stream_data(self.stream, opening + piece)
                opening = b""
                self.transmit()
            if self.requests.has_room():
                await sleep_until(self.requests.due_ns())
            else:
                await self.answered.wait()

    async def send_probe(self):
        """Sends the probe's messages under load."""
        await sleep_until(self.probe.due_ns())
        while self.probe.send_due():
            await sleep_until(self.probe.due_ns())

    async def abandon(self, messages):
        """Writes all messages, as a program on asyncio does, and closes."""
        while messages.left:
            piece = messages.next()
            self._quic.send_stream_data(self.stream, piece)
            self._transmit_soon()
            self.sent.add(len(piece))
            await asyncio.sleep(0)
        self.done = True
        self.close()
        now_ns = time.monotonic_ns()
        if self.probe:
            self.probe.end(now_ns)
        contract.say(type="done", at_ns=now_ns, bytes=self.sent.bytes, facts=self.facts("sender"))

    def transmit(self):
        """Passes more data to the stream whenever something may be sent."""
        if self.stream is not None and self.messages.left:
            sender = self._quic._streams[self.stream].sender
            while self.messages.left and sender._buffer_stop - sender._buffer_start < self.most:
                piece = self.messages.next()
                self._quic.send_stream_data(self.stream, piece, end_stream=self.messages.left == 0)
                self.sent.add(len(piece))
        super().transmit()


class ProbeSender(Protocol):
    """Connection of the probe at the connecting end."""

    def start(self, order, port):
        self.probe = contract.Probe(order, self.send)
        self.connect((order["peer"], port))

    def send(self, data):
        self._quic.send_stream_data(0, data)
        self.transmit()

    def quic_event_received(self, event):
        if isinstance(event, HandshakeCompleted):
            self.probe.open()
        elif isinstance(event, StreamDataReceived):
            self.probe.received(len(event.data))
        elif isinstance(event, ConnectionTerminated):
            self.on_end(event)


class Receiver(Protocol):
    order = None
    # Connection whose token was correct.
    admitted = None

    def __init__(self, *arguments, **more):
        super().__init__(*arguments, **more)
        self.opening = b""
        self.echoes = False
        self.delivered = contract.Delivered()
        self.responder = contract.Responder(self.order)

    def quic_event_received(self, event):
        if isinstance(event, StreamDataReceived):
            data = event.data
            if self.echoes:
                self._quic.send_stream_data(event.stream_id, data)
                return
            if Receiver.admitted is not self:
                self.opening += data
                if len(self.opening) < TOKEN_BYTES:
                    return
                data = self.opening[TOKEN_BYTES:]
                if self.order["probe"] and self.opening[:TOKEN_BYTES].hex() == self.order["probe"]["token"]:
                    self.echoes = True
                    self._quic.send_stream_data(event.stream_id, data)
                    return
                if self.opening[:TOKEN_BYTES].hex() != self.order["token"] or Receiver.admitted:
                    self.close(error_code=1, reason_phrase="this is not the trial's token")
                    return
                Receiver.admitted = self
                contract.say(type="connected", at_ns=time.monotonic_ns())
            self.delivered.add(data)
            for answer in self.responder.due(self.delivered.bytes):
                self._quic.send_stream_data(event.stream_id, answer)
            if self.delivered.bytes >= self.order["size_bytes"] and not self.done:
                self.done = True
                answer = self.delivered.bytes.to_bytes(ACKNOWLEDGEMENT_BYTES, "big")
                self._quic.send_stream_data(event.stream_id, answer, end_stream=True)
                self.transmit()
                self.delivered.done(time.monotonic_ns(), facts=self.facts("receiver"))
        elif isinstance(event, ConnectionTerminated) and Receiver.admitted is self and not self.done:
            if self.order["finish"] != "abandon":
                self.on_end(event)
            self.done = True
            self.delivered.done(time.monotonic_ns(), facts=self.facts("receiver"))


def on_exception(_loop, context):
    """Fails the trial. asyncio would only log an error in a callback, and the transfer would hang."""
    contract.fail(f"{context['message']}: {context.get('exception')!r}")


async def lines():
    """Reads the agent's lines in a thread, while the event loop runs."""
    asyncio.get_running_loop().set_exception_handler(on_exception)
    while True:
        yield await asyncio.to_thread(contract.hear)


async def send(order):
    configuration = configure(order, is_client=True)
    sender = Sender(QuicConnection(configuration=configuration))
    sender.begin(order)
    await open_endpoint(sender, order)
    contract.say(type="ready")
    async for message in lines():
        if message["type"] == "probe":
            probing = ProbeSender(QuicConnection(configuration=configure(order, is_client=True)))
            await open_endpoint(probing, order)
            probing.start(order, message["port"])
            sender.probe = probing.probe
        elif message["type"] == "start":
            sender.start(message["port"])


async def receive(order):
    Receiver.order = order
    configuration = configure(order, is_client=False)
    server = QuicServer(configuration=configuration, create_protocol=Receiver)
    accept = server.datagram_received

    def from_peer_alone(data, address):
        if address[0] == order["peer"]:
            accept(data, address)

    server.datagram_received = from_peer_alone
    sock = await open_endpoint(server, order)
    contract.say(type="ready", port=sock.getsockname()[1])
    async for message in lines():
        if message["type"] == "stop":
            receiver = Receiver.admitted
            (receiver.delivered if receiver else contract.Delivered()).done(time.monotonic_ns())


def run(order):
    asyncio.run(send(order) if order["type"] == "connect" else receive(order))


contract.serve(
    {
        "name": "aioquic",
        "version": aioquic.__version__,
        "workloads": ["bulk", "stop-and-wait", "request-response"],
        "capabilities": ["abandon", "probe", "repeat"],
    },
    run,
)
