//! Facts that every driver states about its stack, by which a reader judges whether two transports
//! were compared on equal terms.

use std::collections::BTreeSet;

use crate::{
    facts::Facts,
    loss_response::{LOSS_RESPONSE, LossResponse},
    warning::{Argument, Text, fact, phrase},
};

pub use crate::fact_value::{NOT_APPLICABLE, NOT_KNOWN};

/// Value for a driver whose packets the kernel cuts and joins according to the interface's
/// settings. The agent, which knows the interface, replaces it by these settings.
pub const OF_INTERFACE: &str = "of the interface";

/// Threads of a stack in user space with a current-thread runtime.
pub const USER_SPACE_THREAD: &str = "1, protocol in it";

/// Value of the fact `threads` of a blocking driver over a protocol of the kernel.
pub const KERNEL_THREAD: &str = "1, protocol in the kernel";

/// Returns key exchange and certificate of a transport without TLS.
#[must_use]
pub fn no_tls() -> Text {
    fact::not_applicable(fact::no_tls()).into()
}

/// Definition of one fact of [`STACK_FACTS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StackFact {
    /// Name in `TrialRecord::facts`. `.sender` or `.receiver` is the end that states it; of the others both ends do, or
    /// the connecting one.
    pub name: &'static str,
    /// Title in tables.
    pub title: &'static str,
    /// Definition in `docs/stacks.md`, without a full stop.
    pub definition: &'static str,
}

macro_rules! stack_facts {
    ($($name:literal $title:literal: $definition:literal;)*) => {
        /// All facts of the table, in its order.
        pub const STACK_FACTS: &[StackFact] = &[$(StackFact {
            name: $name,
            title: $title,
            definition: $definition,
        }),*];
    };
}

stack_facts! {
    "congestion_control.sender" "congestion control":
        "algorithm that the sender runs, read back from the stack where possible";
    "initial_window.sender" "initial window":
        "congestion window of the transfer's connection before its first acknowledgement";
    "slow_start_exit.sender" "slow-start exit":
        "event other than a loss that ends slow start: `HyStart`, `HyStart++` (RFC 9406), a `bandwidth plateau` (BBR), or none (`loss`)";
    "pacing.sender" "pacing":
        "whether the stack itself paces, that is, spreads packets over the round-trip time; a queueing discipline of the host, such as fq, may pace as well";
    "packet_size.sender" "packet size":
        "size of the largest IP packet of the transfer, and whether it may grow";
    "first_flight.sender" "packet size of the first flight":
        "size of the largest IP packet that the connecting end sends before it has an answer, data in it or not, where the stack has its packet size from the path and not from a search";
    "loss_response.sender" "response to losses":
        "goodput of one connection at random losses over the published function of the congestion control of that name, as [measured](#response-to-losses) for each driver; above 1 the stack yields less to losses than its congestion control by definition";
    "cipher.sender" "cipher":
        "encryption of the payload";
    "crypto.sender" "cryptography":
        "library that encrypts the payload: `aws-lc`, `ring`, `BoringSSL`, …";
    "tls.key_exchange" "key exchange":
        "group of the key exchange of TLS";
    "tls.certificate" "certificate":
        "key of the server's certificate, and size of the chain that it sends, in bytes of DER; the run's own, so that it is the same for all stacks";
    "threads.sender" "threads of the sender":
        "threads of the sender's process that carry the transfer, and whether the protocol runs in them or in the kernel";
    "threads.receiver" "threads of the receiver":
        "threads of the receiver's process that carry the transfer, and whether the protocol runs in them or in the kernel";
    "offloads.sender" "offloads of the sender":
        "segmentation offload of the socket (UDP_SEGMENT) or of the interface (TSO, GSO)";
    "offloads.receiver" "offloads of the receiver":
        "receive offload of the socket (UDP_GRO) or of the interface (GRO)";
    "acknowledgements.receiver" "acknowledgements":
        "when the receiver acknowledges packets that arrive in order";
    "flow_control.receiver" "flow control":
        "amount of data that the receiver lets the sender have in flight";
    "probe.placement" "probe under load":
        "carrier of the probe messages beside the transfer: a connection of their own, or a stream of the transfer's connection";
    "probe.retransmission" "retransmission of the probe":
        "whether the transport sends a probe message beside the transfer again that was lost, which takes a round trip or a time-out more: `by the transport`, or none with the units that carry it";
}

/// Looks a fact up by its name.
#[must_use]
pub fn find(name: &str) -> Option<&'static StackFact> {
    STACK_FACTS.iter().find(|fact| fact.name == name)
}

/// Whether a value can be compared with another stack's: not where it is not known, or has no meaning.
#[must_use]
pub fn is_comparable(value: &str) -> bool {
    !value.starts_with(NOT_KNOWN) && !value.starts_with(NOT_APPLICABLE)
}

/// Whether any two values of a fact differ. One that is not known, or has no meaning, is no difference, and neither are
/// responses to losses that [`LossResponse::differs_from`] tolerates.
pub fn differ<'a>(fact: &str, values: impl Iterator<Item = &'a str>) -> bool {
    let comparable: BTreeSet<&str> = values.filter(|value| is_comparable(value)).collect();
    if fact == LOSS_RESPONSE {
        let responses: Vec<_> = comparable
            .into_iter()
            .filter_map(LossResponse::read)
            .collect();
        let others = |at: usize| responses[at + 1..].iter();
        let mut each = responses.iter().enumerate();
        return each.any(|(at, own)| others(at).any(|its| own.differs_from(its)));
    }
    comparable.len() > 1
}

/// Facts that a driver states about its stack, each field as [`STACK_FACTS`] defines it. Congestion
/// control, the response to losses and those of the probe are stated elsewhere, as they are only known at run time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StackFacts {
    /// Initial congestion window: `10 packets`.
    pub initial_window: Text,
    /// Exit from slow start: `loss`, `HyStart`, `HyStart++`, `bandwidth plateau`.
    pub slow_start_exit: Text,
    /// Pacing: `by the stack`, `none`.
    pub pacing: Text,
    /// Packet size: `1500 B, fixed`.
    pub packet_size: Text,
    /// Packet size of the first flight: `1500 B`.
    pub first_flight: Text,
    /// Cipher: `AES-128-GCM`, `none`.
    pub cipher: Text,
    /// Library of the cipher: `aws-lc`, `ring`, `BoringSSL`, `none`.
    pub crypto: Text,
    /// Group of the key exchange: `X25519`, [`no_tls`].
    pub key_exchange: Text,
    /// Certificate: `ECDSA P-256, 372 B`, [`no_tls`].
    pub certificate: Text,
    /// Threads: `1, protocol in the kernel`.
    pub threads: Text,
    /// Offloads: `GSO, 44 packets at most`, `none`.
    pub offloads: Text,
    /// Frequency of acknowledgements: `every second packet, or after 25 ms`.
    pub acknowledgements: Text,
    /// Flow-control windows: `stream 704531 B, connection 880663 B`, in bytes, so that equal
    /// windows read alike.
    pub flow_control: Text,
}

impl StackFacts {
    /// Returns the facts of an end, `sender` or `receiver`, keyed by the full name of the fact.
    #[must_use]
    pub fn of_end(self, end: &str) -> Facts {
        [
            ("initial_window", self.initial_window),
            ("slow_start_exit", self.slow_start_exit),
            ("pacing", self.pacing),
            ("packet_size", self.packet_size),
            ("first_flight", self.first_flight),
            ("cipher", self.cipher),
            ("crypto", self.crypto),
            ("threads", self.threads),
            ("offloads", self.offloads),
            ("acknowledgements", self.acknowledgements),
            ("flow_control", self.flow_control),
        ]
        .map(|(name, value)| (format!("{name}.{end}"), value))
        .into_iter()
        .chain([
            ("tls.key_exchange".to_owned(), self.key_exchange),
            ("tls.certificate".to_owned(), self.certificate),
        ])
        .filter(|(name, _)| find(name).is_some())
        .collect()
    }
}

/// Formats a window as a number of packets of this size, `9.9 packets`, or in bytes if the packet
/// size is zero.
#[must_use]
pub fn packets(window_bytes: u64, packet_bytes: u64) -> Text {
    if packet_bytes == 0 {
        return fact::size(window_bytes).into();
    }
    match window_bytes as f64 / packet_bytes as f64 {
        whole if (whole - whole.round()).abs() < 0.05 => phrase::packets(whole.round() as u64),
        part => fact::part_of_packets(Argument::decimal(part, 1)),
    }
    .into()
}

/// Returns the cipher of a TLS suite in one spelling for all libraries: `AES-128-GCM`.
#[must_use]
pub fn cipher(suite: &str) -> String {
    let known = [
        ("AES_128_GCM", "AES-128-GCM"),
        ("AES_256_GCM", "AES-256-GCM"),
        ("CHACHA20", "ChaCha20-Poly1305"),
    ];
    let known = known.into_iter().find(|(part, _)| suite.contains(part));
    known.map_or(suite, |(_, name)| name).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn responses_to_losses_differ_by_more_than_their_scatter() {
        let differ = |facts: [&str; 2]| differ(LOSS_RESPONSE, facts.into_iter());
        assert!(!differ(["1.00 at 0.1 %", "0.99 at 0.1 %"]));
        assert!(differ(["1.00 at 0.1 %", "4.83 at 0.1 %"]));
        assert!(!differ(["1.00 at 0.1 %", "not known: not measured"]));
    }

    #[test]
    fn both_ends_state_all_facts_but_those_of_run_time() {
        let stated = StackFacts {
            initial_window: "10 packets".into(),
            slow_start_exit: "loss".into(),
            pacing: "none".into(),
            packet_size: "1500 B, fixed".into(),
            first_flight: "60 B".into(),
            cipher: "none".into(),
            crypto: "none".into(),
            key_exchange: no_tls(),
            certificate: no_tls(),
            threads: "1".into(),
            offloads: "none".into(),
            acknowledgements: "each packet".into(),
            flow_control: "none".into(),
        };
        let mut names: Vec<String> = ["sender", "receiver"]
            .into_iter()
            .flat_map(|end| stated.clone().of_end(end))
            .map(|(name, _)| name)
            .chain(
                [
                    "congestion_control.sender",
                    LOSS_RESPONSE,
                    "probe.placement",
                    "probe.retransmission",
                ]
                .map(str::to_owned),
            )
            .collect();
        names.sort();
        names.dedup();
        let mut all: Vec<&str> = STACK_FACTS.iter().map(|fact| fact.name).collect();
        all.sort_unstable();
        assert_eq!(names, all);
    }

    #[test]
    fn windows_and_ciphers_of_different_stacks_read_alike() {
        assert_eq!(packets(14_720, 1472), "10 packets");
        assert_eq!(packets(14_480, 1448), "10 packets");
        assert_eq!(packets(12_000, 1472), "8.2 packets");
        assert_eq!(packets(12_000, 0), "12000 B");
        assert_eq!(cipher("TLS13_AES_128_GCM_SHA256"), "AES-128-GCM");
        assert_eq!(cipher("TLS_AES_128_GCM_SHA256"), "AES-128-GCM");
        assert_eq!(cipher("NULL"), "NULL");
    }
}
