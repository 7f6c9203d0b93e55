//! Endpoint of a trial over WDT.

use std::{
    io,
    net::IpAddr,
    os::fd::BorrowedFd,
    sync::{Arc, OnceLock},
};

use parking_lot::Mutex;
use rand::RngExt as _;
use regatta_control::TrialOrder;
use regatta_model::{
    Facts, PortRange, Warning, phrase, reason, units::signed_nanoseconds, warning,
};
use regatta_transport::{
    MonotonicTime, Result, Stop, TransferEndpoint, TransportError,
    transfer::{Connections, Incoming, Outgoing},
};
use regatta_transport_tcp::parts::{self, PlainEndpoint, Settings};
use regatta_transport_wdt::{
    Failure, Report, VERSION,
    crypto::{Cipher, DEFAULT_IV_CHANGE_BYTES, Secret},
    host::Host,
    net::{self, Listener},
    receiver, sender,
    url::ConnectionUrl,
};

use crate::{
    content::{ContentSink, ContentSource},
    host::TrialHost,
    options::Options,
};

/// One end of a trial.
pub(crate) struct Endpoint {
    flows: PlainEndpoint,
    settings: Settings,
    options: Options,
    /// `sender` or `receiver`.
    end: &'static str,
    local: IpAddr,
    peer: IpAddr,
    /// Ports to listen on.
    ports: Option<PortRange>,
    /// At a receiver, the listener and its URL until it receives.
    listening: Mutex<Option<(Listener, ConnectionUrl)>>,
    report: Mutex<Option<Report>>,
    /// Number of blocks, at the sender, which knows it before any has left.
    blocks: OnceLock<u64>,
}

impl Endpoint {
    pub(crate) fn new(order: &TrialOrder, options: Options) -> Result<Self> {
        let endpoint = Self {
            flows: parts::plain(order)?,
            settings: Settings::new(order),
            options,
            end: order.role.name(),
            local: order.local,
            peer: order.peer,
            ports: order.ports,
            listening: Mutex::default(),
            report: Mutex::default(),
            blocks: OnceLock::new(),
        };
        if !order.connects() {
            let listening = endpoint.listen()?;
            *endpoint.listening.lock() = Some(listening);
        }
        Ok(endpoint)
    }

    fn listen(&self) -> Result<(Listener, ConnectionUrl)> {
        let mut listener = Listener::default();
        for _ in 0..self.options.connections {
            PortRange::bind(self.ports, |port| listener.listen(port, self))
                .map_err(TransportError::io(reason::cannot_listen()))?;
        }
        let secret = self.options.encryption.cipher().map(|cipher| {
            let secret = Secret::random(cipher, DEFAULT_IV_CHANGE_BYTES);
            secret.map_err(TransportError::stack(reason::cannot_make_key()))
        });
        let url = ConnectionUrl {
            host: self.local.to_string(),
            ports: listener.ports().to_vec(),
            // Whoever did not get the offer does not know it.
            id: rand::rng().random::<u64>().to_string().into_bytes(),
            version: Some(VERSION),
            secret: secret.transpose()?,
            iv_change_bytes: DEFAULT_IV_CHANGE_BYTES,
            resumption: false,
        };
        Ok((listener, url))
    }

    /// Returns the error of a finished transfer, or stores its report.
    fn ended(&self, ended: Result<Report, Failure>, host: &TrialHost<'_>) -> Result<()> {
        if let Some(wrong) = host.wrong() {
            return Err(wrong);
        }
        let report = ended.map_err(TransportError::stack(reason::wdt_failed()))?;
        *self.report.lock() = Some(report);
        Ok(())
    }
}

/// Host of the sockets of this end.
impl Host for Endpoint {
    fn opened(&self, socket: BorrowedFd<'_>) -> io::Result<()> {
        self.settings.set_up(socket).map_err(io::Error::other)
    }

    fn local(&self) -> Option<IpAddr> {
        Some(self.local)
    }

    fn admits(&self, peer: IpAddr) -> bool {
        peer == self.peer
    }
}

fn no_listener() -> TransportError {
    TransportError::protocol(reason::this_end_does_not_listen())
}

impl TransferEndpoint for Endpoint {
    type Flows = PlainEndpoint;

    fn flows(&self) -> &PlainEndpoint {
        &self.flows
    }

    fn offer(&self) -> Result<String> {
        match &*self.listening.lock() {
            Some((_, url)) => Ok(url.to_secret_string()),
            None => Err(no_listener()),
        }
    }

    fn send(
        &self,
        offer: &str,
        outgoing: &Arc<Outgoing>,
        connections: &Arc<Connections>,
        stop: &Stop,
    ) -> Result<MonotonicTime> {
        let refused = TransportError::stack(reason::bad_offer());
        let mut url = ConnectionUrl::parse(offer).map_err(refused)?;
        // The offer is of the announced peer, whatever address is in it.
        url.host = self.peer.to_string();
        let options = sender::Options {
            block_bytes: self.options.block_size.0,
            checksum: self.options.checksum,
            ..sender::Options::default()
        };
        let source = ContentSource::new(outgoing, self.options.files);
        let session = sender::Session::new(source, &url, options)
            .map_err(TransportError::stack(reason::cannot_begin_wdt()))?;
        // An endpoint serves one transfer.
        let _ = self.blocks.set(session.blocks());
        let session = Arc::new(session);
        let host = TrialHost::new(self, &self.settings, connections, stop);
        let ended = net::send(&session, &url, &host);
        self.ended(ended, &host)?;
        // Closing the connections in good order takes a round trip more.
        let since = session.confirmed().map(|at| at.elapsed());
        let since = signed_nanoseconds(since.unwrap_or_default());
        Ok(MonotonicTime(MonotonicTime::now().0 - since))
    }

    fn receive(
        &self,
        incoming: &Arc<Incoming>,
        connections: &Arc<Connections>,
        stop: &Stop,
    ) -> Result<()> {
        let (listener, url) = self.listening.lock().take().ok_or_else(no_listener)?;
        let sink = ContentSink::new(incoming, self.options.files);
        let defaults = receiver::Options::default();
        let options = receiver::Options {
            // Nobody but the announced peer is let in, and over a long or lossy path it may take a while.
            admission: defaults.read_timeout,
            ..defaults
        };
        let session = receiver::Session::new(sink, &url, options);
        let host = TrialHost::new(self, &self.settings, connections, stop);
        let ended = listener.receive(&Arc::new(session), &host);
        self.ended(ended, &host)
    }

    fn facts(&self) -> Facts {
        let end = self.end;
        let (encryption, cipher, crypto) = match self.options.encryption.cipher() {
            None => ("none", "none", "none"),
            Some(Cipher::Aes128Ctr) => ("aes128-ctr", "AES-128-CTR", "aws-lc"),
            Some(Cipher::Aes128Gcm) => ("aes128-gcm", "AES-128-GCM", "aws-lc"),
        };
        let threads = format!("{}, protocol in the kernel", self.options.connections);
        let encryption = ("wdt.encryption", encryption.to_owned());
        let mut facts = vec![encryption, ("threads", threads)];
        if end == "sender" {
            facts.push(("cipher", cipher.to_owned()));
            facts.push(("crypto", crypto.to_owned()));
        }
        if let Some(report) = &*self.report.lock() {
            let blocks = report.ports.iter().map(|port| port.blocks.to_string());
            facts.push(("wdt.blocks", report.blocks.to_string()));
            facts.push(("connections.blocks", blocks.collect::<Vec<_>>().join(" ")));
        }
        let of_end = |(name, value)| (format!("{name}.{end}"), value);
        facts.into_iter().map(of_end).collect()
    }

    fn warnings(&self) -> Vec<Warning> {
        let mut warnings = self.settings.warnings();
        let connections = u64::from(self.options.connections);
        // Also of a transfer that its deadline ends, and which has no report then.
        if let Some(&blocks) = self.blocks.get()
            && blocks < connections
        {
            warnings.push(warning::wdt_few_blocks(blocks, connections));
        }
        if let Some(report) = &*self.report.lock() {
            let ports = || report.ports.iter();
            let again: u32 = ports().map(|port| port.connections.saturating_sub(1)).sum();
            let lost = ports().filter(|port| port.failure.is_some()).count();
            if again > 0 || lost > 0 {
                let side = phrase::side(self.end);
                warnings.push(warning::wdt_recovered(again.into(), lost as u64, side));
            }
        }
        warnings
    }
}
