//! Limits of an agent that works for a client of `regatta server`, whose orders come from another person.

use std::{
    net::{IpAddr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use regatta_control::{Problem, TrialOrder};
use regatta_model::{Bytes, Pattern, Phrase, PortRange, WorkloadKind, reason};
use regatta_transport::{FILE_OPTIONS, LiveCounters, Stop};
use serde::{Deserialize, Serialize};

/// Longest time between two samples: the quota of bytes is compared at each.
const LONGEST_SAMPLE_INTERVAL: Duration = Duration::from_millis(100);

/// Limits that a client's orders cannot go beyond.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ServedLimits {
    /// The address on which the agent listens.
    pub local: IpAddr,
    /// The client's address; data of others is refused.
    pub peer: IpAddr,
    /// Ports on which the agent listens.
    pub ports: PortRange,
    /// Maximum number of bytes that the agent sends and receives in all its trials.
    pub max_bytes: Option<u64>,
}

/// Bytes that a client may still have sent and received.
#[derive(Debug, Clone)]
pub(crate) struct Quota {
    max_bytes: u64,
    /// Bytes of the trials that have ended.
    used: Arc<AtomicU64>,
    is_exceeded: Arc<AtomicBool>,
}

impl Quota {
    fn count(live: &LiveCounters) -> u64 {
        let sent = live.bytes_sent.load(Ordering::Relaxed);
        sent + live.bytes_delivered.load(Ordering::Relaxed)
    }

    /// Compares the bytes of a trial under way with the quota. The first call beyond the quota reports the failure, the
    /// next one stops the trial: otherwise the other end would report first, with a broken connection.
    pub(crate) fn check(
        &self,
        live: &LiveCounters,
        stop: &Stop,
        on_exceeded: impl FnOnce(Problem),
    ) {
        let used = self.used.load(Ordering::Relaxed);
        if used.saturating_add(Self::count(live)) <= self.max_bytes {
            return;
        }
        if self.is_exceeded.swap(true, Ordering::Relaxed) {
            stop.stop();
        } else if let Some(failure) = self.failure() {
            on_exceeded(failure);
        }
    }

    /// Adds the bytes of a trial that has ended.
    pub(crate) fn add(&self, live: &LiveCounters) {
        self.used.fetch_add(Self::count(live), Ordering::Relaxed);
    }

    /// Returns the failure of a trial that the quota has ended.
    pub(crate) fn failure(&self) -> Option<Problem> {
        let most = Bytes(self.max_bytes);
        let is_exceeded = self.is_exceeded.load(Ordering::Relaxed);
        is_exceeded.then(|| refused(reason::server_allows(most)))
    }
}

fn refused(reason: Phrase) -> Problem {
    Problem::failed(reason, reason::ask_for_less())
}

/// Limits with the bytes that are used.
pub(crate) struct Served {
    limits: ServedLimits,
    quota: Option<Quota>,
}

impl Served {
    pub(crate) fn new(limits: ServedLimits) -> Self {
        let quota = limits.max_bytes.map(|max_bytes| Quota {
            max_bytes,
            used: Arc::default(),
            is_exceeded: Arc::default(),
        });
        Self { limits, quota }
    }

    /// Puts the server's addresses and ports into an order, and returns the terms of its trial.
    ///
    /// # Errors
    /// An order that a client may not give.
    pub(crate) fn admit(&self, order: &mut TrialOrder) -> Result<Terms, Problem> {
        // An end that connects would send to any address that a client names.
        if order.connects() {
            return Err(refused(reason::server_only_listens()));
        }
        let mut options = order.transport.options.keys();
        if let Some(name) = options.find(|name| FILE_OPTIONS.contains(&name.as_str())) {
            return Err(refused(reason::server_takes_no_option(name)));
        }
        let file = Pattern::File;
        if matches!(order.workload.kind, WorkloadKind::Bulk { pattern, .. } if pattern == file) {
            return Err(refused(reason::server_sends_no_files()));
        }
        let advertised = order.local;
        order.local = self.limits.local;
        order.peer = self.limits.peer;
        order.ports = Some(self.limits.ports);
        order.files = None;
        order.sample_interval = order.sample_interval.min(LONGEST_SAMPLE_INTERVAL);
        Ok(Terms {
            advertised: Some(advertised),
            quota: self.quota.clone(),
        })
    }
}

/// Limits of one trial; empty for an agent of the user's own run.
#[derive(Debug, Clone, Default)]
pub(crate) struct Terms {
    /// Address under which the client knows this host, such as that of a NAT in front of it.
    advertised: Option<IpAddr>,
    /// Bytes that the trial may have.
    pub quota: Option<Quota>,
}

impl Terms {
    /// Returns the address for the client to connect to, of a trial that listens on `listen`.
    pub(crate) fn connect_address(&self, listen: Option<SocketAddr>) -> Option<SocketAddr> {
        let listen = listen?;
        let address = self.advertised.unwrap_or(listen.ip());
        Some(SocketAddr::new(address, listen.port()))
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, net::Ipv4Addr};

    use regatta_control::{PathHints, Role, TlsMaterial};
    use regatta_model::{BulkOptions, Direction, OptionValue, Probe, Transport, Workload};

    use super::*;

    fn order(role: Role, direction: Direction) -> TrialOrder {
        TrialOrder {
            trial: 0,
            role,
            transport: Transport {
                label: "tcp".into(),
                driver: "tcp".into(),
                options: BTreeMap::new(),
            },
            workload: Workload {
                name: "bulk".into(),
                kind: WorkloadKind::Bulk {
                    amount: Bytes(1).into(),
                    message: Bytes(1),
                    pattern: Pattern::Data,
                    options: BulkOptions {
                        direction,
                        ..BulkOptions::default()
                    },
                },
                probe: Probe::default(),
                transports: Vec::new(),
                conditions: Vec::new(),
                competition: None,
            },
            token: String::new(),
            seed: 0,
            deadline: Duration::ZERO,
            connect_deadline: Duration::ZERO,
            sample_interval: Duration::from_secs(3600),
            local: Ipv4Addr::new(198, 51, 100, 1).into(),
            peer: Ipv4Addr::new(203, 0, 113, 9).into(),
            ports: None,
            path: PathHints {
                round_trip_delay: Duration::ZERO,
                longest_one_way: Duration::ZERO,
                typical_one_way: Duration::ZERO,
                link_rate_bps: None,
                window_bytes: None,
                mtu_bytes: 1500,
                clock_offset_ns: None,
                keeps_order: false,
                is_real_network: false,
                treats_alike: false,
                tuning: regatta_model::Tuning::default(),
                keeps_tcp_limits: false,
            },
            cpus: None,
            reports_start: false,
            beside_others: false,
            progress_interval: None,
            tls: TlsMaterial {
                certificate_der_base64: String::new(),
                key_der_base64: None,
                server_name: String::new(),
            },
            files: Some("/etc".into()),
        }
    }

    fn served(max_bytes: Option<u64>) -> Served {
        Served::new(ServedLimits {
            local: Ipv4Addr::new(10, 0, 0, 1).into(),
            peer: Ipv4Addr::new(192, 0, 2, 7).into(),
            ports: "5201-5216".parse().expect("ports"),
            max_bytes,
        })
    }

    #[test]
    fn addresses_ports_and_files_of_an_order_are_replaced() {
        let mut order = order(Role::Receiver, Direction::Forward);
        let Ok(terms) = served(None).admit(&mut order) else {
            panic!("the order is refused");
        };
        assert_eq!(order.local, Ipv4Addr::new(10, 0, 0, 1));
        assert_eq!(order.peer, Ipv4Addr::new(192, 0, 2, 7));
        assert_eq!(order.ports.map(PortRange::bounds), Some((5201, 5216)));
        assert_eq!(order.files, None);
        assert_eq!(order.sample_interval, LONGEST_SAMPLE_INTERVAL);
        let connect = terms.connect_address(Some((Ipv4Addr::new(10, 0, 0, 1), 5202).into()));
        let advertised = SocketAddr::from((Ipv4Addr::new(198, 51, 100, 1), 5202));
        assert_eq!(connect, Some(advertised));
    }

    #[test]
    fn orders_against_third_parties_are_refused() {
        let is_refused = |order: &mut TrialOrder| served(None).admit(order).is_err();
        assert!(is_refused(&mut order(Role::Sender, Direction::Forward)));
        assert!(is_refused(&mut order(Role::Receiver, Direction::Reverse)));
        assert!(!is_refused(&mut order(Role::Sender, Direction::Reverse)));
        for name in FILE_OPTIONS {
            let mut with = order(Role::Receiver, Direction::Forward);
            let options = &mut with.transport.options;
            options.insert(name.into(), OptionValue::Flag(true));
            assert!(is_refused(&mut with), "{name}");
        }
    }

    #[test]
    fn quota_counts_bytes_of_all_trials() {
        let mut order = order(Role::Receiver, Direction::Forward);
        let Ok(terms) = served(Some(100)).admit(&mut order) else {
            panic!("the order is refused");
        };
        let quota = terms.quota.expect("a quota");
        let (live, stop) = (LiveCounters::default(), Stop::new());
        live.bytes_delivered.store(60, Ordering::Relaxed);
        quota.check(&live, &stop, |_| panic!("60 of 100"));
        quota.add(&live);
        let mut reported = None;
        quota.check(&live, &stop, |failure| reported = Some(failure));
        assert!(reported.is_some() && !stop.is_stopped());
        quota.check(&live, &stop, |_| panic!("reported twice"));
        assert!(stop.is_stopped());
        assert!(quota.failure().is_some());
    }
}
