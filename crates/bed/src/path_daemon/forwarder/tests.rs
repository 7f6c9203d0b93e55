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

#[test]
fn devices_are_read_between_batches_of_packets_that_are_written() {
    let [from, mut sender] = device();
    let [to, mut receiver] = device();
    let [[idle, _idle], [nowhere, _nowhere]] = [device(), device()];
    let condition = unimpaired();
    let mut running = Running {
        links: [
            link(from, to, &condition, Direction::Forward, 0).expect("a link"),
            link(idle, nowhere, &condition, Direction::Reverse, 0).expect("a link"),
        ],
        inbox: mpsc::channel().1,
        wake: Arc::new(EventFd::new().expect("an event")),
        buffer_bytes: buffer_bytes(&condition),
        pool: Vec::new(),
        batches: [0; 2],
        arrivals: Arrivals::new(),
        rests: None,
        coalescing: None,
        busy_polls: false,
        tap: None,
    };
    for _ in 0..2 * BATCH + 1 {
        sender.write_all(&[0; 100]).expect("a packet");
    }
    while running.take_in(0) {}
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
fn a_request_is_answered_while_packets_never_cease() {
    let open = |path| File::options().read(true).write(true).open(path);
    // Every read is a packet that is larger than the MTU.
    let devices = || [open("/dev/zero"), open("/dev/null")].map(|it| it.expect("a device"));
    let forwarder = Forwarder::start([devices(), devices()]).expect("a thread");
    let (reply, answer) = mpsc::channel();
    forwarder.send(Request::Counters { reply }).expect("sent");
    let within = Duration::from_secs(60);
    let counters = answer.recv_timeout(within).expect("an answer");
    assert!(counters.iter().all(|link| link.offered > 0), "{counters:?}");
    // The thread ends with its handle.
    drop(forwarder);
}
