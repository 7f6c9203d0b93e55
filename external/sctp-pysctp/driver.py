"""Kernel SCTP through pysctp (https://github.com/p1sec/pysctp) as a driver of Regatta.

One association, one-to-one style, everything ordered on stream 0, as in the published experiments: the
token as one message, then all messages, and in an exchange an answer to each. When the receiver has everything,
it answers with the number of bytes received, in eight bytes. The sender does not close before that. The probe
has an association of its own.
"""

import os
import select
import socket
import sys
import threading
import time

import contract

# Whether the socket is left as the kernel makes it, instead of set as the other stacks (option `profile`).
LIBRARY = "--profile=library" in sys.argv[1:]

# Buffers of the socket, in bytes; the kernel may grant less. A message has to fit into the send buffer.
SMALLEST_BUFFER = 4 << 20

# Longest part of a message that is read at once, in bytes: a longer buffer would be mapped and unmapped for each.
RECEIVE_AT_ONCE = 1 << 16


def loads_modules():
    """Whether this kernel loads modules: it was built for them, and loading was not forbidden until the next boot."""
    try:
        with open("/proc/sys/kernel/modules_disabled") as file:
            return os.path.exists("/proc/modules") and file.read().strip() != "1"
    except OSError:
        return os.path.exists("/proc/modules")


def load():
    """Returns the module `sctp`, if the kernel has SCTP and the module is installed."""
    try:
        socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_SCTP).close()
    except OSError as error:
        contract.unsupported(
            f"this kernel has no SCTP: {error.strerror}",
            ("run `modprobe sctp`, or " if loads_modules() else "") + "use `sctp-userspace`",
        )
    try:
        import sctp
    except ImportError as error:
        contract.unsupported(
            f"pysctp is not there: {error}",
            "run `apt-get install libsctp-dev python3-dev`, then `make external`",
        )
    return sctp


def open_socket(sctp, order):
    sock = sctp.sctpsocket_tcp(socket.AF_INET6 if ":" in order["local"] else socket.AF_INET)
    if not LIBRARY:
        window = max(contract.window_bytes(order), 2 * order["message_bytes"])
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, window)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, max(window, SMALLEST_BUFFER))
        sock.set_nodelay(True)
    contract.bind(sock, order)
    return sock


def facts(sock, role):
    """Returns the known facts of the kernel's SCTP. The window is half of the receive buffer."""
    with open("/proc/sys/net/sctp/sack_timeout") as file:
        delay = file.read().strip()
    window = sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) // 2
    unknown = "not known: pysctp does not tell it"
    stack = {
        "initial_window": unknown,
        "slow_start_exit": "loss",
        "pacing": "none",
        "packet_size": unknown,
        "first_flight": "not applicable: an INIT carries no data",
        "cipher": "none",
        "crypto": "none",
        "threads": "1, protocol in the kernel",
        "offloads": "of the interface",
        "acknowledgements": f"every second packet, or after {delay} ms",
        "flow_control": f"association {window} B",
    }
    # The kernel has only this one (RFC 9260).
    tls = {f"tls.{name}": "not applicable: no TLS" for name in ("key_exchange", "certificate")}
    return {f"congestion_control.{role}": "rfc9260"} | tls | contract.stack_facts(role, stack)


def receive_message(sctp, sock, most):
    """Returns bytes of a message, or of a part of one; empty when the other end has closed."""
    while True:
        _, flags, data, _ = sock.sctp_recv(most)
        if not flags & sctp.FLAG_NOTIFICATION:
            return data


def send(sctp, order):
    sock = open_socket(sctp, order)
    room = sock.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)
    if order["message_bytes"] > room:
        contract.unsupported(
            f"a message of {order['message_bytes']} bytes does not fit the send buffer of {room} bytes",
            "run `sysctl -w net.core.wmem_max=67108864`, or send shorter messages",
        )
    requests = contract.Requests(order) if order["exchange"] else None
    messages = contract.Messages(order)
    contract.say(type="ready")
    start, probe = contract.hear(), None
    if start["type"] == "probe":
        probe = open_probe(sctp, order, start["port"])
        start = contract.hear()
    started_ns = time.monotonic_ns()
    sock.connect((order["peer"], start["port"]))
    connected_ns = time.monotonic_ns()
    contract.say(type="connected", started_ns=started_ns, at_ns=connected_ns)
    if probe and probe.begin(connected_ns):
        threading.Thread(target=send_probe, args=(probe,), daemon=True).start()
    sock.sctp_send(bytes.fromhex(order["token"]))
    if requests:
        requests.begin(connected_ns)
        ask(sctp, sock, requests)
        messages.left = 0
    sent = contract.Progress()
    while messages.left:
        piece = messages.next()
        sock.sctp_send(piece)
        sent.add(len(piece))
    answer = receive_message(sctp, sock, 8)
    done_ns = time.monotonic_ns()
    if probe:
        probe.end(done_ns)
    contract.say(
        type="done",
        at_ns=done_ns,
        bytes=int.from_bytes(answer, "big"),
        crc32=requests.crc32 if requests else None,
        facts=facts(sock, "sender"),
    )
    contract.hear()


def ask(sctp, sock, requests):
    """Sends all requests when they are due, until all answers are there."""
    while not requests.is_complete():
        for piece in requests.take_due():
            sock.sctp_send(piece)
        wait = max(0, requests.due_ns() - time.monotonic_ns()) / 1e9 if requests.has_room() else None
        if select.select([sock.fileno()], [], [], wait)[0]:
            data = receive_message(sctp, sock, RECEIVE_AT_ONCE)
            if not data:
                contract.fail("the receiver closed the association before it was done")
            requests.answered(data)


def open_probe(sctp, order, port):
    """Connects the probe, which receives in a thread."""
    sock = open_socket(sctp, order)
    sock.connect((order["peer"], port))
    probe = contract.Probe(order, sock.sctp_send)

    def receive():
        while data := receive_message(sctp, sock, RECEIVE_AT_ONCE):
            probe.received(len(data))

    probe.open()
    threading.Thread(target=receive, daemon=True).start()
    return probe


def send_probe(probe):
    contract.sleep_until(probe.due_ns())
    while probe.send_due():
        contract.sleep_until(probe.due_ns())


def echo(sctp, sock):
    """Sends the probe's messages back."""
    while data := receive_message(sctp, sock, RECEIVE_AT_ONCE):
        sock.sctp_send(data)


def receive(sctp, order):
    listener = open_socket(sctp, order)
    listener.listen(8)
    contract.say(type="ready", port=listener.getsockname()[1])
    delivered, responder = contract.Delivered(), contract.Responder(order)
    lock = threading.Lock()

    def until_told():
        while contract.hear()["type"] == "stop":
            with lock:
                delivered.done(time.monotonic_ns())

    threading.Thread(target=until_told, daemon=True).start()
    while True:
        sock, address = listener.accept()
        token = receive_message(sctp, sock, 16).hex() if address[0] == order["peer"] else None
        if token == order["token"]:
            break
        if order["probe"] and token == order["probe"]["token"]:
            threading.Thread(target=echo, args=(sctp, sock), daemon=True).start()
        else:
            sock.close()
    contract.say(type="connected", at_ns=time.monotonic_ns())
    while delivered.bytes < order["size_bytes"]:
        data = receive_message(sctp, sock, RECEIVE_AT_ONCE)
        if not data:
            contract.fail("the sender closed the association before it was done")
        with lock:
            delivered.add(data)
        for answer in responder.due(delivered.bytes):
            sock.sctp_send(answer)
    sock.sctp_send(delivered.bytes.to_bytes(8, "big"))
    done_ns = time.monotonic_ns()
    with lock:
        delivered.done(done_ns, facts=facts(sock, "receiver"))
    # The other thread ends the program.
    threading.Event().wait()


def version():
    from importlib import metadata

    return metadata.version("pysctp")


def main():
    sctp = load()
    contract.serve(
        {
            "name": "pysctp",
            "version": f"{version()}, Linux {os.uname().release}",
            "workloads": ["bulk", "stop-and-wait", "request-response"],
            "capabilities": ["probe", "repeat"],
        },
        lambda order: (send if order["type"] == "connect" else receive)(sctp, order),
    )


main()
