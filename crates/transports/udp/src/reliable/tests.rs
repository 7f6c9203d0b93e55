//! Both ends of a connection over a simulated path. No sockets, no clock: a run is a function of
//! the impairments of its datagrams.

use std::{
    collections::BTreeMap,
    sync::LazyLock,
    time::{Duration, Instant},
};

use bytes::Bytes;
use proptest::{
    prelude::*,
    test_runner::{Config, RngAlgorithm, TestRng, TestRunner},
};
use regatta_control::{Role, TrialOrder};
use regatta_model::{Opening, WorkloadKind};
use regatta_transport::{Purpose, testing};

use super::{
    core::{CloseReason, Core},
    frame::Frame,
    sender::Rules,
};

const ONE_WAY: Duration = Duration::from_millis(10);

/// Returns the moment at which every simulation begins.
pub(super) fn start() -> Instant {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    *START
}

const STOP_AND_WAIT: Rules = Rules {
    window: 1,
    at_once: 0,
    max_wait: Duration::from_secs(1),
    max_retransmits: 15,
    cubic: false,
};

const SLIDING: Rules = Rules {
    window: 64,
    cubic: true,
    ..STOP_AND_WAIT
};

/// Impairment of one datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Impairment {
    Arrives,
    Lost,
    /// Arrives later by this much.
    Late(Duration),
    Twice,
}

/// A path with an impairment for each datagram in turn; when they are used up, all arrive.
struct Path<F: FnMut(End, &[u8]) -> Impairment> {
    now: Instant,
    impairment: F,
    /// Datagrams in flight, by time of arrival and order of departure.
    in_flight: BTreeMap<(Instant, u64), (End, Vec<u8>)>,
    departed: u64,
    sent: Vec<(Instant, End, Vec<u8>)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Client,
    Server,
}

/// An end and the messages that its application has received.
struct Host {
    core: Core,
    got: Vec<Vec<u8>>,
}

impl<F: FnMut(End, &[u8]) -> Impairment> Path<F> {
    fn new(impairment: F) -> Self {
        Self {
            now: start(),
            impairment,
            in_flight: BTreeMap::new(),
            departed: 0,
            sent: Vec::new(),
        }
    }

    fn depart(&mut self, from: End, datagram: Vec<u8>) {
        let mut arrive = |after: Duration| {
            self.departed += 1;
            let key = (self.now + after, self.departed);
            self.in_flight.insert(key, (from, datagram.clone()));
        };
        match (self.impairment)(from, &datagram) {
            Impairment::Arrives => arrive(ONE_WAY),
            Impairment::Late(by) => arrive(ONE_WAY + by),
            Impairment::Twice => {
                arrive(ONE_WAY);
                arrive(ONE_WAY + ONE_WAY / 3);
            }
            Impairment::Lost => {}
        }
        self.sent.push((self.now, from, datagram));
    }

    fn transmit(&mut self, from: End, core: &mut Core) {
        let mut buffer = Vec::new();
        while core.poll_frame(self.now, &mut buffer) {
            self.depart(from, buffer.clone());
        }
        while let Some(number) = core.poll_message(self.now) {
            let (head, payload) = core.sender.datagram(number).expect("it was just polled");
            self.depart(from, [head, payload].concat());
        }
    }

    /// Runs until `done` or until nothing more can happen.
    fn run(
        &mut self,
        client: &mut Host,
        server: &mut Option<Host>,
        rules: Rules,
        done: impl Fn(&Host, Option<&Host>) -> bool,
    ) {
        for _ in 0..1_000_000 {
            client.core.on_time(self.now);
            self.transmit(End::Client, &mut client.core);
            if let Some(server) = server {
                server.core.on_time(self.now);
                self.transmit(End::Server, &mut server.core);
            }
            if done(client, server.as_ref()) {
                return;
            }
            let timers = [
                client.core.next_time(),
                server.as_ref().and_then(|server| server.core.next_time()),
                self.in_flight.first_key_value().map(|((at, _), _)| *at),
            ];
            let Some(next) = timers.into_iter().flatten().min() else {
                return;
            };
            assert!(next >= self.now, "time does not go back");
            self.now = next;
            while let Some(entry) = self.in_flight.first_entry()
                && entry.key().0 <= self.now
            {
                let (from, datagram) = entry.remove();
                let to = match from {
                    End::Server => client as &mut Host,
                    End::Client => {
                        let opens =
                            matches!(Frame::decode(&datagram), Some((_, Frame::Conn { .. })));
                        if server.is_none() && opens {
                            *server = Some(Host {
                                core: Core::accepting(7, rules),
                                got: Vec::new(),
                            });
                        }
                        match server {
                            Some(server) => server,
                            None => continue,
                        }
                    }
                };
                let got = &mut to.got;
                to.core.handle(self.now, &datagram, true, &mut |data| {
                    got.push(data.to_vec())
                });
            }
        }
        panic!("it goes on for ever");
    }

    /// Returns the number of datagrams sent by one end whose frame satisfies `is`.
    fn count(&self, from: End, is: impl Fn(Frame<'_>) -> bool) -> usize {
        self.sent
            .iter()
            .filter(|(_, end, datagram)| {
                *end == from && Frame::decode(datagram).is_some_and(|(_, frame)| is(frame))
            })
            .count()
    }
}

/// Returns `count` messages of different lengths and content.
fn messages(count: usize) -> Vec<Vec<u8>> {
    (0..count)
        .map(|index| vec![index as u8; 1 + index * 37 % 1200])
        .collect()
}

/// Result of a whole exchange: all messages delivered, one answer back, both directions finished.
struct Exchange {
    over: Option<CloseReason>,
    time: Duration,
    client: Host,
    server: Option<Host>,
}

fn exchange<F: FnMut(End, &[u8]) -> Impairment>(
    path: &mut Path<F>,
    rules: Rules,
    sent: &[Vec<u8>],
) -> Exchange {
    let mut client = Host {
        core: Core::connecting(7, rules, b"opening"),
        got: Vec::new(),
    };
    let mut server = None;
    for message in sent {
        client
            .core
            .sender
            .push(&message[..1], Bytes::copy_from_slice(&message[1..]));
    }
    client.core.sender.push_end();
    path.run(&mut client, &mut server, rules, |client, server| {
        client.core.close_reason().is_some()
            || server.is_some_and(|server| {
                server.core.close_reason().is_some() || server.core.receiver.finished
            })
    });
    if client.core.close_reason().is_none() {
        if let Some(server) = &mut server {
            server.core.sender.push(b"RCVD", Bytes::new());
        }
        path.run(&mut client, &mut server, rules, |client, server| {
            !client.got.is_empty()
                || client.core.close_reason().is_some()
                || server.is_some_and(|server| server.core.close_reason().is_some())
        });
    }
    Exchange {
        over: client.core.close_reason(),
        time: path.now.duration_since(start()),
        client,
        server,
    }
}

#[test]
fn stop_and_wait_takes_a_round_trip_for_each_message() {
    let sent = messages(16);
    let mut path = Path::new(|_, _| Impairment::Arrives);
    let done = exchange(&mut path, STOP_AND_WAIT, &sent);
    assert_eq!(done.server.expect("a server").got, sent);
    assert_eq!(done.client.got, [b"RCVD".to_vec()]);
    // CONN and CONACC; 16 messages and the end with their acknowledgements. The answer leaves when
    // the end arrives.
    assert_eq!(done.time, ONE_WAY * 2 * (1 + 16 + 1));
    assert_eq!(
        path.count(End::Client, |frame| matches!(frame, Frame::Conn { .. })),
        1
    );
    assert_eq!(
        path.count(End::Server, |frame| matches!(frame, Frame::ConAcc)),
        1
    );
    assert_eq!(
        path.count(End::Client, |frame| matches!(frame, Frame::Data { .. })),
        16
    );
    assert_eq!(
        path.count(End::Server, |frame| matches!(frame, Frame::Acc { .. })),
        17
    );
    let sample = done.client.core.sender.sample();
    assert_eq!(sample.smoothed_rtt, Some(ONE_WAY * 2));
    assert_eq!(sample.retransmitted_packets, Some(0));
    assert_eq!(sample.packets_sent, Some(17));
}

#[test]
fn the_messages_of_the_idle_probe_share_a_round_trip_before_stop_and_wait() {
    let rules = Rules {
        at_once: 8,
        ..STOP_AND_WAIT
    };
    let sent = messages(16);
    let mut path = Path::new(|_, _| Impairment::Arrives);
    let done = exchange(&mut path, rules.of(Purpose::LoadProbe), &sent);
    assert_eq!(done.server.expect("a server").got, sent);
    // CONN; the first eight messages; the other eight, and the end.
    assert_eq!(done.time, ONE_WAY * 2 * (1 + 1 + 8 + 1));
    assert_eq!(rules.of(Purpose::Transfer), STOP_AND_WAIT);
}

#[test]
fn each_loss_costs_stop_and_wait_a_full_timeout() {
    // The third message is lost twice, the acknowledgement of the fifth once.
    let mut lost = (0, 0);
    let mut path = Path::new(|_, datagram: &[u8]| match Frame::decode(datagram) {
        Some((_, Frame::Data { number: 2, .. })) if lost.0 < 2 => {
            lost.0 += 1;
            Impairment::Lost
        }
        Some((_, Frame::Acc { next: 5, .. })) if lost.1 < 1 => {
            lost.1 += 1;
            Impairment::Lost
        }
        _ => Impairment::Arrives,
    });
    let sent = messages(8);
    let done = exchange(&mut path, STOP_AND_WAIT, &sent);
    assert_eq!(done.server.expect("a server").got, sent);
    assert_eq!(
        done.time,
        ONE_WAY * 2 * (1 + 8 + 1) + 3 * STOP_AND_WAIT.max_wait
    );
    assert_eq!(
        done.client.core.sender.sample().retransmitted_packets,
        Some(3)
    );
}

#[test]
fn connection_gives_up_after_max_retransmits() {
    for (rules, waits) in [
        (STOP_AND_WAIT, 16),
        (
            Rules {
                max_retransmits: 2,
                ..STOP_AND_WAIT
            },
            3,
        ),
    ] {
        // CONN gets no answer.
        let mut dead = Path::new(|_, _| Impairment::Lost);
        let done = exchange(&mut dead, rules, &messages(1));
        assert_eq!(done.over, Some(CloseReason::NoAnswer));
        assert_eq!(done.time, rules.max_wait * waits);
        assert_eq!(dead.sent.len(), waits as usize);
        // A message gets none.
        let mut silent_server = Path::new(|_, datagram: &[u8]| match Frame::decode(datagram) {
            Some((_, Frame::Data { .. })) => Impairment::Lost,
            _ => Impairment::Arrives,
        });
        let done = exchange(&mut silent_server, rules, &messages(1));
        assert_eq!(done.over, Some(CloseReason::GaveUp));
        assert_eq!(done.time, ONE_WAY * 2 + rules.max_wait * waits);
        let copies = silent_server.count(End::Client, |frame| matches!(frame, Frame::Data { .. }));
        assert_eq!(copies, waits as usize);
    }
}

#[test]
fn a_window_fills_the_path_and_repairs_one_loss_within_round_trips() {
    let sent = messages(64);
    let mut path = Path::new(|_, _| Impairment::Arrives);
    let rules = Rules {
        cubic: false,
        ..SLIDING
    };
    let clear = exchange(&mut path, rules, &sent).time;
    // Set-up; all 64 at once, the end after the first acknowledgement; the answer.
    assert_eq!(clear, ONE_WAY * 2 * 3);
    let mut lost = false;
    let mut path = Path::new(|_, datagram: &[u8]| match Frame::decode(datagram) {
        Some((_, Frame::Data { number: 20, .. })) if !lost => {
            lost = true;
            Impairment::Lost
        }
        _ => Impairment::Arrives,
    });
    let done = exchange(&mut path, rules, &sent);
    assert_eq!(done.server.expect("a server").got, sent);
    // It is sent again when later ones are acknowledged: no wait for a timer.
    assert_eq!(done.time, clear);
    assert_eq!(
        done.client.core.sender.sample().retransmitted_packets,
        Some(1)
    );
}

#[test]
fn reordering_below_the_threshold_is_no_loss() {
    // Every fifth message comes after the two that follow it.
    let mut path = Path::new(|_, datagram: &[u8]| match Frame::decode(datagram) {
        Some((_, Frame::Data { number, .. } | Frame::Fin { number, .. })) => {
            let delay_us = number * 10 + if number % 5 == 0 { 25 } else { 0 };
            Impairment::Late(Duration::from_micros(delay_us))
        }
        _ => Impairment::Arrives,
    });
    let sent = messages(64);
    let done = exchange(&mut path, SLIDING, &sent);
    assert_eq!(
        done.client.core.sender.sample().retransmitted_packets,
        Some(0)
    );
    assert_eq!(done.server.expect("a server").got, sent);
}

#[test]
fn invalid_frames_are_ignored() {
    let mut core = Core::accepting(7, SLIDING);
    let mut buffer = Vec::new();
    while core.poll_frame(start(), &mut buffer) {}
    core.sender.push(b"message", Bytes::new());
    let number = core.poll_message(start()).expect("a message");
    let mut deliver = |_: &[u8]| panic!("nothing was sent");
    let bitmap = [0xff; 64];
    for frame in [
        // Acknowledgements of what was never sent.
        Frame::Acc {
            next: 2,
            largest: 0,
            bitmap: &[],
        },
        Frame::Acc {
            next: u64::MAX,
            largest: 0,
            bitmap: &bitmap,
        },
        Frame::Acc {
            next: 0,
            largest: 5,
            bitmap: &[],
        },
        // Data from beyond any window.
        Frame::Data {
            number: u64::MAX,
            transmission: u64::MAX,
            payload: b"x",
        },
    ] {
        frame.encode(7, &mut buffer);
        core.handle(
            start() + Duration::from_nanos(1),
            &buffer,
            true,
            &mut deliver,
        );
    }
    for session in [6, 8] {
        Frame::Close.encode(session, &mut buffer);
        core.handle(
            start() + Duration::from_nanos(1),
            &buffer,
            true,
            &mut deliver,
        );
    }
    core.handle(start() + Duration::from_nanos(1), b"", true, &mut deliver);
    core.handle(
        start() + Duration::from_nanos(1),
        &[0xc6; 2000],
        true,
        &mut deliver,
    );
    assert!(core.is_open());
    assert_eq!(
        core.sender.datagram(number).map(|(head, _)| head.len()),
        Some(21 + 7)
    );
    assert_eq!(core.sender.held(), 1);
}

fn impairment() -> impl Strategy<Value = Impairment> {
    prop_oneof![
        4 => Just(Impairment::Arrives),
        2 => Just(Impairment::Lost),
        1 => (1_u64..200).prop_map(|ms| Impairment::Late(Duration::from_millis(ms))),
        1 => Just(Impairment::Twice),
    ]
}

/// Returns a test runner with the same cases each time.
fn runner(cases: u32) -> TestRunner {
    let config = Config {
        cases,
        failure_persistence: None,
        ..Config::default()
    };
    TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &[4; 32]))
}

#[test]
fn messages_arrive_once_in_order_over_any_path() {
    for rules in [
        STOP_AND_WAIT,
        SLIDING,
        Rules {
            cubic: false,
            window: 5,
            ..SLIDING
        },
    ] {
        runner(300)
            .run(
                &(0_usize..60, proptest::collection::vec(impairment(), 0..400)),
                |(count, impairments)| {
                    let sent = messages(count);
                    let mut impairments = impairments.into_iter();
                    let mut path =
                        Path::new(|_, _| impairments.next().unwrap_or(Impairment::Arrives));
                    let done = exchange(&mut path, rules, &sent);
                    prop_assert_eq!(done.over, None);
                    prop_assert_eq!(&done.server.expect("a server").got, &sent);
                    prop_assert_eq!(done.client.got, [b"RCVD".to_vec()]);
                    Ok(())
                },
            )
            .expect("every case holds");
    }
}

#[test]
fn dead_path_ends_the_connection_with_delivered_data_intact() {
    runner(200)
        .run(&(1_usize..60, 0_usize..200), |(count, alive)| {
            let sent = messages(count);
            let mut left = alive;
            let mut path = Path::new(|_, _| {
                left = left.saturating_sub(1);
                if left > 0 {
                    Impairment::Arrives
                } else {
                    Impairment::Lost
                }
            });
            let done = exchange(&mut path, SLIDING, &sent);
            let got = done.server.map(|server| server.got).unwrap_or_default();
            prop_assert_eq!(&got[..], &sent[..got.len()]);
            prop_assert!(done.over.is_some() || done.client.got.len() == 1 || got == sent);
            Ok(())
        })
        .expect("every case holds");
}

/// Another exchange would come on top of CONN and CONACC, and its answer would be taken for the delivery.
#[test]
fn a_connection_has_one_opening_exchange() {
    let mut order = testing::order_for(Role::Sender, "udp-reliable", 1000, 1000);
    let opening = |order: &mut TrialOrder, change: Option<Opening>| match &mut order.workload.kind {
        WorkloadKind::Bulk { options, .. } => {
            options.opening = change.unwrap_or(options.opening);
            options.opening
        }
        other => panic!("{other:?}"),
    };
    opening(&mut order, Some(Opening::Answered));
    let mut own = super::with_own_opening(&order);
    assert_eq!(opening(&mut own, None), Opening::WithData);
}
