//! Endpoint of a trial over WDT.

use std::{
    io,
    net::{IpAddr, SocketAddr},
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
    FileReceiver, FileSender, MonotonicTime, Result, Stop, TransferEndpoint, TransportError,
    addresses::scoped,
    transfer::{Connections, Incoming, Outgoing},
};
use regatta_transport_tcp::parts::{self, Connecting, Listening, PlainEndpoint, Settings};
use wdt_protocol::{
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

/// One end of a trial, with what only its role has.
pub(crate) struct Endpoint<F, R> {
    flows: PlainEndpoint<F>,
    sockets: Sockets,
    options: Options,
    /// `sender` or `receiver`.
    end: &'static str,
    report: Mutex<Option<Report>>,
    role: R,
}

/// Role of the sender.
#[derive(Default)]
pub(crate) struct Sender {
    /// Number of blocks, which is known before any has left.
    blocks: OnceLock<u64>,
}

/// Role of the receiver.
pub(crate) struct Receiver {
    url: ConnectionUrl,
    /// Listener until it receives.
    listener: Mutex<Option<Listener>>,
}

/// Sockets of an end.
struct Sockets {
    settings: Settings,
    local: IpAddr,
    peer: IpAddr,
}

impl Endpoint<Connecting, Sender> {
    /// Makes the end that sends.
    pub(crate) fn sender(order: &TrialOrder, options: Options) -> Self {
        let sockets = Sockets::of(order);
        Self::new(
            order,
            options,
            parts::client(order),
            (sockets, Sender::default()),
        )
    }
}

impl Endpoint<Listening, Receiver> {
    /// Makes the end that receives; it listens when this returns.
    pub(crate) fn receiver(order: &TrialOrder, options: Options) -> Result<Self> {
        let sockets = Sockets::of(order);
        let receiver = Receiver::new(order, &options, &sockets)?;
        let flows = parts::server(order)?;
        Ok(Self::new(order, options, flows, (sockets, receiver)))
    }
}

impl Receiver {
    fn new(order: &TrialOrder, options: &Options, sockets: &Sockets) -> Result<Self> {
        let mut listener = Listener::default();
        for _ in 0..options.connections {
            PortRange::bind(order.ports, |port| listener.listen(port, sockets))
                .map_err(TransportError::io(reason::cannot_listen()))?;
        }
        let secret = options.encryption.cipher().map(|cipher| {
            let secret = Secret::random(cipher, DEFAULT_IV_CHANGE_BYTES);
            secret.map_err(TransportError::stack(reason::cannot_make_key()))
        });
        let url = ConnectionUrl {
            host: order.local.to_string(),
            ports: listener.ports().to_vec(),
            // Whoever did not get the offer does not know it.
            id: rand::rng().random::<u64>().to_string().into_bytes(),
            version: Some(VERSION),
            secret: secret.transpose()?,
            iv_change_bytes: DEFAULT_IV_CHANGE_BYTES,
            resumption: false,
        };
        let listener = Mutex::new(Some(listener));
        Ok(Self { url, listener })
    }
}

impl<F, R> Endpoint<F, R> {
    fn new(
        order: &TrialOrder,
        options: Options,
        flows: PlainEndpoint<F>,
        (sockets, role): (Sockets, R),
    ) -> Self {
        Self {
            flows,
            sockets,
            options,
            end: order.role.name(),
            report: Mutex::default(),
            role,
        }
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

impl Sockets {
    fn of(order: &TrialOrder) -> Self {
        Self {
            settings: Settings::new(order),
            local: order.local,
            peer: order.peer,
        }
    }
}

impl Sockets {
    /// Returns the address of the peer as the host of a URL, that of a link-local one with its scope.
    fn peer_host(&self) -> String {
        match scoped(SocketAddr::new(self.peer, 0), self.local) {
            SocketAddr::V6(v6) if v6.scope_id() > 0 => format!("{}%{}", v6.ip(), v6.scope_id()),
            address => address.ip().to_string(),
        }
    }
}

impl Host for Sockets {
    fn opened(&self, socket: BorrowedFd<'_>) -> io::Result<()> {
        self.settings.set_up(socket).map_err(io::Error::other)
    }

    fn local(&self) -> Option<SocketAddr> {
        Some(scoped(SocketAddr::new(self.local, 0), self.local))
    }

    fn admits(&self, peer: IpAddr) -> bool {
        peer == self.peer
    }
}

impl FileSender for Endpoint<Connecting, Sender> {
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
        url.host = self.sockets.peer_host();
        let options = sender::Options {
            block_bytes: self.options.block_size.0,
            checksum: self.options.checksum,
            ..sender::Options::default()
        };
        let source = ContentSource::new(outgoing, self.options.files);
        let session = sender::Session::new(source, &url, options)
            .map_err(TransportError::stack(reason::cannot_begin_wdt()))?;
        // An endpoint serves one transfer.
        let _ = self.role.blocks.set(session.blocks());
        let session = Arc::new(session);
        let host = TrialHost::new(&self.sockets, &self.sockets.settings, connections, stop);
        let ended = net::send(&session, &url, &host);
        self.ended(ended, &host)?;
        // Closing the connections in good order takes a round trip more.
        let since = session.confirmed().map(|at| at.elapsed());
        let since = signed_nanoseconds(since.unwrap_or_default());
        Ok(MonotonicTime(MonotonicTime::now().0 - since))
    }
}

impl FileReceiver for Endpoint<Listening, Receiver> {
    fn offer(&self) -> Result<String> {
        Ok(self.role.url.to_secret_string())
    }

    fn receive(
        &self,
        incoming: &Arc<Incoming>,
        connections: &Arc<Connections>,
        stop: &Stop,
    ) -> Result<()> {
        let listener = self.role.listener.lock().take();
        let none = || TransportError::protocol(reason::this_end_does_not_listen());
        let listener = listener.ok_or_else(none)?;
        let sink = ContentSink::new(incoming, self.options.files);
        let defaults = receiver::Options::default();
        let options = receiver::Options {
            // Nobody but the announced peer is let in, and over a long or lossy path it may take a while.
            admission: defaults.read_timeout,
            ..defaults
        };
        let session = receiver::Session::new(sink, &self.role.url, options);
        let host = TrialHost::new(&self.sockets, &self.sockets.settings, connections, stop);
        let ended = listener.receive(&Arc::new(session), &host);
        self.ended(ended, &host)
    }
}

impl Role for Sender {
    fn blocks(&self) -> Option<u64> {
        self.blocks.get().copied()
    }
}

impl Role for Receiver {
    fn blocks(&self) -> Option<u64> {
        None
    }
}

/// Role of an end, sender or receiver, as far as its facts depend on it.
trait Role: Send + Sync + 'static {
    /// Returns the number of blocks that this end sends; `None` at a receiver.
    fn blocks(&self) -> Option<u64>;
}

impl<F: Send + Sync + 'static, R: Role> TransferEndpoint for Endpoint<F, R> {
    type Flows = PlainEndpoint<F>;

    fn flows(&self) -> &PlainEndpoint<F> {
        &self.flows
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
        let mut warnings = self.sockets.settings.warnings();
        let connections = u64::from(self.options.connections);
        // Also of a transfer that its deadline ends, and which has no report then.
        if let Some(blocks) = self.role.blocks()
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
