//! Descriptor of the driver `wdt`.

use regatta_control::TrialOrder;
use regatta_model::IpProtocol;
use regatta_transport::{
    Carries, ClientSession, Driver, DriverDescriptor, OptionValues, Result, ServerSession,
    TransferSession, TrialContext, Unsupported,
};
use regatta_transport_tcp::parts;

use crate::{endpoint::Endpoint, options::Options};

/// Warp Data Transfer.
pub(crate) struct Wdt;

static WDT: DriverDescriptor = DriverDescriptor {
    name: "wdt",
    title: "WDT",
    ip_protocol: Some(IpProtocol::Tcp),
    summary: "Warp Data Transfer, version 32: whole files in blocks over several TCP connections",
    carries: Carries::Files,
    congestion_control_choosable: true,
    stack: "Linux kernel, Regatta's own WDT",
    stack_version: env!("CARGO_PKG_VERSION"),
    options: Options::DEFINITIONS,
    metrics: DriverDescriptor::ALL_LEVELS,
    ..DriverDescriptor::PLAIN
};

impl Driver for Wdt {
    fn descriptor(&self) -> &'static DriverDescriptor {
        &WDT
    }

    fn supported(&self, options: &OptionValues) -> Result<(), Unsupported> {
        parts::supported(options)
    }

    fn client(&self, order: &TrialOrder, context: TrialContext) -> Result<Box<dyn ClientSession>> {
        let endpoint = Endpoint::sender(order, self.options(order)?);
        Ok(TransferSession::new(endpoint, order, context)?)
    }

    fn server(&self, order: &TrialOrder, context: TrialContext) -> Result<Box<dyn ServerSession>> {
        let endpoint = Endpoint::receiver(order, self.options(order)?)?;
        Ok(TransferSession::new(endpoint, order, context)?)
    }
}

impl Wdt {
    /// Reads the options of an order that this host can carry out.
    fn options(&self, order: &TrialOrder) -> Result<Options> {
        let options = &order.transport.options;
        self.check_options(options)?;
        self.applicable(options, &order.workload.kind)?;
        self.supported(options)?;
        Ok(Options::read(options))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use regatta_model::{Bytes, OptionValue};

    use super::*;
    use crate::options::Encryption;

    #[test]
    fn options_round_trip() {
        let defaults = Options::read(&BTreeMap::new());
        assert_eq!(
            (
                defaults.connections,
                defaults.block_size,
                defaults.encryption.cipher()
            ),
            (8, Bytes(16 << 20), None)
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
            Options::read(&all),
            Options {
                connections: 3,
                block_size: Bytes(100_000),
                encryption: Encryption::Aes128Gcm,
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
