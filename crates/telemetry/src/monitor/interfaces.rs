//! Counters and offloads of every interface that carries packets.

use std::collections::BTreeMap;

use super::reading::{Value, Values};
use crate::{
    file::ProcFile,
    interface::{INTERFACES_FILE, InterfaceCounters, InterfaceInfo},
};

/// Maximum number of interfaces of a host that are sampled, in the kernel's order: a host of containers can have
/// hundreds of virtual ones, after its real ones.
const MAX_INTERFACES: usize = 32;

/// The interfaces of the network namespace of the thread that opened this.
#[derive(Debug)]
pub(super) struct Interfaces {
    file: Option<ProcFile>,
    /// Offloads by interface, as they were last read.
    offloads: BTreeMap<String, Vec<(&'static str, bool)>>,
}

impl Interfaces {
    pub(super) fn open() -> Self {
        Self {
            file: ProcFile::open(INTERFACES_FILE),
            offloads: BTreeMap::new(),
        }
    }

    /// Asks for the offloads again with the next reading.
    pub(super) fn forget_offloads(&mut self) {
        self.offloads.clear();
    }

    pub(super) fn read(&mut self, values: &mut Values) {
        let Some(Ok(text)) = self.file.as_mut().map(ProcFile::read) else {
            return;
        };
        for (name, counters) in carrying(text) {
            add(&name, &counters, values);
            let ask = || InterfaceInfo::of(&name).map_or_else(Vec::new, |info| info.offloads);
            let offloads = self.offloads.entry(name.clone()).or_insert_with(ask);
            values.extend(offloads.iter().map(|(offload, on)| {
                let value = Value::State(f64::from(u8::from(*on)));
                (format!("interface.{name}.offload_{offload}"), value)
            }));
        }
    }
}

/// Returns the interfaces that have carried a packet, at most [`MAX_INTERFACES`].
fn carrying(text: &[u8]) -> Vec<(String, InterfaceCounters)> {
    let mut found = InterfaceCounters::parse_all(text);
    found.retain(|(_, counters)| counters.received_packets > 0 || counters.sent_packets > 0);
    found.truncate(MAX_INTERFACES);
    found
}

fn add(interface: &str, counters: &InterfaceCounters, values: &mut Values) {
    let counts = [
        ("received_bytes", counters.received_bytes),
        ("received_packets", counters.received_packets),
        ("receive_errors", counters.receive_errors),
        ("receive_drops", counters.receive_drops),
        ("sent_bytes", counters.sent_bytes),
        ("sent_packets", counters.sent_packets),
        ("send_errors", counters.send_errors),
        ("send_drops", counters.send_drops),
        ("collisions", counters.collisions),
    ];
    values.extend(counts.map(|(name, count)| {
        let name = format!("interface.{interface}.{name}");
        (name, Value::Count(count))
    }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interfaces_without_packets_are_left_out() {
        let text = b"Inter-| Receive\n face |bytes\n\
            lo: 10 1 0 0 0 0 0 0 20 2 0 0 0 0 0 0\n\
            ifb0: 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n\
            eth0.5: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n";
        let mut values = Values::new();
        let found = carrying(text);
        assert_eq!(found.len(), 2);
        add(&found[1].0, &found[1].1, &mut values);
        assert_eq!(values.len(), 9);
        assert_eq!(
            values[8],
            ("interface.eth0.5.collisions".to_owned(), Value::Count(14))
        );
    }

    #[test]
    fn number_of_interfaces_is_limited() {
        let line = |n| format!("veth{n}: 1 1 0 0 0 0 0 0 1 1 0 0 0 0 0 0\n");
        let text: String = (0..100).map(line).collect();
        let found = carrying(text.as_bytes());
        assert_eq!(found.len(), MAX_INTERFACES);
        assert_eq!(found[0].0, "veth0");
    }
}
