//! Descriptor and options of the driver `wdt`.

use std::collections::BTreeMap;

use regatta_control::TrialOrder;
use regatta_model::OptionValue;
use regatta_transport::{
    Carries, Driver, DriverDescriptor, OptionDefinition, OptionKind, Session, TransferSession,
    TransportError, TrialContext, Unsupported,
};
use regatta_transport_tcp::parts;
use regatta_transport_wdt::crypto::Cipher;

use crate::endpoint::Endpoint;

/// Warp Data Transfer.
pub(crate) struct Wdt;

static WDT: DriverDescriptor = DriverDescriptor {
    name: "wdt",
    title: "WDT",
    summary: "Warp Data Transfer, version 32: whole files in blocks over several TCP connections",
    carries: Carries::Files,
    reliable: true,
    encrypted: false,
    multiplexes: false,
    congestion_control_choosable: true,
    capabilities: &[],
    stack: "Linux kernel, Regatta's own WDT",
    stack_version: env!("CARGO_PKG_VERSION"),
    options: &[
        parts::CC,
        CONNECTIONS,
        BLOCK_SIZE,
        ENCRYPTION,
        CHECKSUM,
        FILES,
    ],
};

// The defaults are those of the reference.
const CONNECTIONS: OptionDefinition = OptionDefinition {
    name: "connections",
    kind: OptionKind::Number { least: 1, most: 64 },
    default: "8",
    help: "TCP connections, each to a port of its own",
};

const BLOCK_SIZE: OptionDefinition = OptionDefinition {
    name: "block_size",
    kind: OptionKind::Size,
    default: "16MiB",
    help: "longest range of a file that is sent over one connection at a time",
};

const ENCRYPTION: OptionDefinition = OptionDefinition {
    name: "encryption",
    kind: OptionKind::OneOf(&["none", "aes128-ctr", "aes128-gcm"]),
    default: "none",
    help: "how each connection is encrypted",
};

const CHECKSUM: OptionDefinition = OptionDefinition {
    name: "checksum",
    kind: OptionKind::Flag,
    default: "false",
    help: "whether a CRC-32C follows each block",
};

const FILES: OptionDefinition = OptionDefinition {
    name: "files",
    kind: OptionKind::Number {
        least: 1,
        most: 100_000,
    },
    default: "1",
    help: "files that the content is cut into; several make a directory tree",
};

/// Options of the driver, parsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Options {
    pub connections: u16,
    pub block_bytes: u64,
    pub cipher: Option<Cipher>,
    pub checksum: bool,
    pub files: u64,
}

impl Options {
    /// Parses options that were checked.
    pub(crate) fn new(options: &BTreeMap<String, OptionValue>) -> Self {
        Self {
            connections: CONNECTIONS.number(options).unwrap_or(1),
            block_bytes: BLOCK_SIZE.size(options).unwrap_or_default(),
            cipher: match ENCRYPTION.text(options) {
                Some("aes128-ctr") => Some(Cipher::Aes128Ctr),
                Some("aes128-gcm") => Some(Cipher::Aes128Gcm),
                _ => None,
            },
            checksum: CHECKSUM.flag(options),
            files: FILES.number(options).unwrap_or(1),
        }
    }
}

impl Driver for Wdt {
    fn descriptor(&self) -> &'static DriverDescriptor {
        &WDT
    }

    fn supported(&self, options: &BTreeMap<String, OptionValue>) -> Result<(), Unsupported> {
        parts::supported(options)
    }

    fn prepare(
        &self,
        order: &TrialOrder,
        context: TrialContext,
    ) -> Result<Box<dyn Session>, TransportError> {
        let options = &order.transport.options;
        self.check_options(options)?;
        self.applicable(options, &order.workload.kind)?;
        self.supported(options)?;
        let endpoint = Endpoint::new(order, Options::new(options))?;
        Ok(Box::new(TransferSession::new(endpoint, order, context)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_options_are_read_as_they_are_written() {
        let defaults = Options::new(&BTreeMap::new());
        assert_eq!(
            (defaults.connections, defaults.block_bytes, defaults.cipher),
            (8, 16 << 20, None)
        );
        assert_eq!((defaults.checksum, defaults.files), (false, 1));
        let text = |text: &str| OptionValue::Text(text.to_owned());
        let all = BTreeMap::from([
            ("connections".to_owned(), OptionValue::Number(3)),
            ("block_size".to_owned(), text("100kB")),
            ("encryption".to_owned(), text("aes128-gcm")),
            ("checksum".to_owned(), OptionValue::Flag(true)),
            ("files".to_owned(), OptionValue::Number(7)),
            ("cc".to_owned(), text("reno")),
        ]);
        Wdt.check_options(&all).expect("they are right");
        assert_eq!(
            Options::new(&all),
            Options {
                connections: 3,
                block_bytes: 100_000,
                cipher: Some(Cipher::Aes128Gcm),
                checksum: true,
                files: 7,
            }
        );
        for (name, value) in [
            ("connections", OptionValue::Number(65)),
            ("encryption", text("rot13")),
            ("block_size", text("0B")),
        ] {
            let wrong = BTreeMap::from([(name.to_owned(), value)]);
            assert!(Wdt.check_options(&wrong).is_err(), "{name}");
        }
    }
}
