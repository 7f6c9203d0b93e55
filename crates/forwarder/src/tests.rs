//! Tests of the forwarder: sockets stand for the devices.

use std::os::fd::OwnedFd;

use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};

use super::*;

/// Makes a pair of sockets that keep packets apart, one of which stands for a device.
fn device() -> [File; 2] {
    let flags = SockFlag::SOCK_NONBLOCK;
    let (device, kernel): (OwnedFd, OwnedFd) =
        socketpair(AddressFamily::Unix, SockType::SeqPacket, None, flags).expect("sockets");
    [device.into(), kernel.into()]
}

/// Makes a forwarder over an unimpaired path. Returns it with the kernels' ends of the forward direction, sender first,
/// and those of the other one.
fn forwarder(coalescing: Option<Coalescing>) -> (Running, [File; 2], [File; 2]) {
    let [[from, sender], [to, receiver]] = [device(), device()];
    let [[idle, silent], [nowhere, deaf]] = [device(), device()];
    let condition = unimpaired();
    let [forward, reverse] = emulated(&condition, 0).expect("links");
    let running = Running {
        links: [
            Link::new(from, to, forward, &condition),
            Link::new(idle, nowhere, reverse, &condition),
        ],
        inbox: mpsc::channel().1,
        wake: Arc::new(EventFd::new().expect("an event")),
        buffer_bytes: buffer_bytes(&condition),
        pool: Vec::new(),
        overdue_ns: 0,
        arrivals: Arrivals::new(),
        rests: None,
        coalescing,
        busy_polls: false,
        tap: None,
        conditions: 0,
    };
    (running, [sender, receiver], [silent, deaf])
}

#[test]
fn devices_are_read_between_batches_of_packets_that_are_written() {
    let (mut running, [mut sender, mut receiver], _other) = forwarder(None);
    for _ in 0..2 * BATCH + 1 {
        sender.write_all(&[0; 100]).expect("a packet");
    }
    while running.read_batch(0) {}
    let mut written = || {
        let mut packet = [0; 200];
        std::iter::from_fn(|| receiver.read(&mut packet).ok()).count()
    };
    assert!(running.deliver());
    assert_eq!(written(), BATCH);
    assert!(running.deliver());
    assert_eq!(written(), BATCH);
    assert!(!running.deliver());
    assert_eq!(written(), 1);
}

#[test]
fn a_device_is_read_further_while_no_packet_is_overdue() {
    let (mut running, [mut sender, _receiver], _other) = forwarder(Some(Coalescing::default()));
    for _ in 0..2 * BATCH {
        sender.write_all(&[0; 100]).expect("a packet");
    }
    running.overdue_ns = OVERDUE_NS;
    assert!(running.read_batch(0), "a batch, and as much is left");
    running.overdue_ns = 0;
    assert!(!running.read_batch(0), "all that is left");
    assert!(running.deliver());
    assert!(running.overdue_ns > 0, "a batch waits that was due");
    while running.deliver() {}
    assert_eq!(running.overdue_ns, 0, "none waits");
}

#[test]
fn a_request_is_answered_under_continuous_load() {
    let open = |path| File::options().read(true).write(true).open(path);
    // Every read is a packet that is larger than the MTU.
    let devices = || [open("/dev/zero"), open("/dev/null")].map(|it| it.expect("a device"));
    let forwarder = Forwarder::start([devices(), devices()]).expect("a thread");
    let (reply, answer) = mpsc::channel();
    // The thread ends with its handle.
    thread::spawn(move || {
        let _ = reply.send(forwarder.counters());
    });
    let within = Duration::from_secs(60);
    let counters = answer.recv_timeout(within).expect("an answer");
    let counters = counters.expect("counters");
    assert!(counters.iter().all(|link| link.offered > 0), "{counters:?}");
}

#[test]
fn packets_pass_by_io_uring_and_requests_are_answered() {
    let (running, [mut sender, mut receiver], _other) = forwarder(None);
    let (requests, inbox) = mpsc::channel();
    let wake = Arc::clone(&running.wake);
    // The thread ends with this process.
    spawn("forwarder", move || {
        let running = Running { inbox, ..running };
        let ring = Ring::new(&running).expect("a ring");
        running.run_on(ring)
    })
    .expect("a thread");
    let handle = Forwarder { requests, wake };
    // More than there are buffers for, and at once as many as a socket holds.
    for first in (0..1000_u64).step_by(100) {
        let numbers = first..first + 100;
        for number in numbers.clone() {
            let mut packet = [0; 100];
            packet[HEADER_BYTES..HEADER_BYTES + 8].copy_from_slice(&number.to_le_bytes());
            sender.write_all(&packet).expect("a packet");
        }
        for number in numbers {
            let mut polled = [PollFd::new(receiver.as_fd(), PollFlags::POLLIN)];
            ppoll(&mut polled, None, None).expect("a packet");
            let mut packet = [0; 200];
            assert_eq!(receiver.read(&mut packet).expect("a packet"), 100);
            assert_eq!(packet[HEADER_BYTES..HEADER_BYTES + 8], number.to_le_bytes());
        }
    }
    let [forward, reverse] = handle.counters().expect("counters");
    assert_eq!(
        (forward.offered, forward.delivered, reverse.offered),
        (1000, 1000, 0)
    );
    // Packets that were read before a condition is set are not of that condition.
    handle.set(&unimpaired(), 0).expect("a condition");
    let [forward, _] = handle.counters().expect("counters");
    assert_eq!(forward.offered, 0);
}
