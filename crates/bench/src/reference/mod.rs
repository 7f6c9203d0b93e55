//! Reference programs: the least programs that move bytes with a library, with which the drivers on
//! the same libraries are compared.
//!
//! One connection, one stream, messages of one size, an acknowledgement of eight bytes; no headers,
//! no checks, no sampling. Each end is a process of its own with one current-thread runtime. Each
//! states its own tuning instead of taking the driver's, so that a badly tuned driver shows:
//!
//! - packets of 1500 bytes from the first one, CUBIC, segmentation and receive offload;
//! - flow-control windows and a send buffer of 4 MiB (noq: 2 MiB, as it holds no more packets), and
//!   socket buffers of 8 MiB;
//! - the cryptography that the library's authors have as default: ring for quinn and noq, AWS-LC for
//!   s2n-quic, BoringSSL for quiche;
//! - freed memory is kept, as the agents do;
//! - 32 chunks at once from the connection (quinn, noq), 16 (s2n-quic), or 128 KiB (quiche).
//!
//! Other differences of quinn's perf program were measured and made no clear difference:
//! writes of 1 MiB, a stream window of 1.25 MiB, a send buffer of 10 MiB. `docs/stacks.md` compares
//! ring with AWS-LC.

mod noq;
mod quiche;
mod quinn;
mod s2n;

use std::{io::BufRead, net::SocketAddr, sync::Arc, time::Duration};

use bytes::Bytes;
use clap::ValueEnum;
use regatta_bed::write_line;
use regatta_model::units::nanoseconds;
use rustls::{
    ClientConfig, RootCertStore, ServerConfig,
    crypto::{CryptoProvider, aws_lc_rs, ring},
    pki_types::{CertificateDer, PrivatePkcs8KeyDer, pem::PemObject},
    version::TLS13,
};
use serde::{Deserialize, Serialize};

use crate::error::BenchError;

/// Result of a part of a reference program.
type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Library that has a reference program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Library {
    /// quinn.
    Quinn,
    /// noq, a fork of quinn.
    Noq,
    /// quiche.
    Quiche,
    /// s2n-quic.
    S2n,
}

impl Library {
    /// Returns the driver that is compared with the program.
    pub const fn driver(self) -> &'static str {
        match self {
            Self::Quinn => "quic-quinn",
            Self::Noq => "quic-noq",
            Self::Quiche => "quic-quiche",
            Self::S2n => "quic-s2n",
        }
    }

    /// Returns the name on the command line and in the table.
    pub fn name(self) -> &'static str {
        self.driver().trim_start_matches("quic-")
    }
}

/// Name in the certificate.
const SERVER_NAME: &str = "regatta";

/// Application protocol of the programs.
const ALPN: &[u8] = b"bench";

/// Largest UDP payload in an IPv4 packet of 1500 bytes.
const PAYLOAD_BYTES: u16 = 1472;

/// Flow-control windows: above what loopback holds in flight, so that nothing waits for credit.
const WINDOW_BYTES: u32 = 4 << 20;

/// Socket buffers: they hold a whole window, so that nothing is lost.
const BUFFER_BYTES: usize = 8 << 20;

/// First line of the listening end: its address and its certificate.
#[derive(Debug, Serialize, Deserialize)]
struct Listening {
    /// Address to connect to.
    address: SocketAddr,
    /// Certificate of the listening end.
    certificate_pem: String,
}

/// Last line of the sending end.
#[derive(Debug, Serialize, Deserialize)]
pub struct Transferred {
    /// Bytes that the receiver acknowledged.
    pub bytes: u64,
    /// Time from the connect call to the arrival of the acknowledgement, in nanoseconds.
    pub transfer_time_ns: u64,
}

/// Returns the cryptography that a library has by default, with the one cipher suite of all programs.
fn provider(library: Library) -> Arc<CryptoProvider> {
    Arc::new(match library {
        Library::Quinn | Library::Noq => CryptoProvider {
            cipher_suites: vec![ring::cipher_suite::TLS13_AES_128_GCM_SHA256],
            ..ring::default_provider()
        },
        // s2n-quic encrypts packets with AWS-LC whatever it is given, and quiche has BoringSSL.
        Library::Quiche | Library::S2n => CryptoProvider {
            cipher_suites: vec![aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256],
            ..aws_lc_rs::default_provider()
        },
    })
}

/// Fills `buffer` with random bytes.
fn random(buffer: &mut [u8]) -> Result<()> {
    let filled = aws_lc_rs::default_provider().secure_random.fill(buffer);
    Ok(filled.map_err(|_| "the system gives no random numbers")?)
}

fn runtime() -> Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?)
}

/// Sets the sizes of the socket's buffers.
fn size_buffers(socket: &std::net::UdpSocket) -> Result<()> {
    let buffers = socket2::SockRef::from(socket);
    buffers.set_recv_buffer_size(BUFFER_BYTES)?;
    buffers.set_send_buffer_size(BUFFER_BYTES)?;
    Ok(())
}

/// TLS settings of a listening end, and its certificate, made just now.
struct Server {
    tls: ServerConfig,
    certificate_pem: String,
    /// The key as PEM, for a library that does not use rustls.
    key_pem: String,
}

impl Server {
    fn new(library: Library) -> Result<Self> {
        let certified_key = rcgen::generate_simple_self_signed(vec![SERVER_NAME.to_owned()])?;
        let certificate = certified_key.cert.der().clone();
        let key = PrivatePkcs8KeyDer::from(certified_key.signing_key.serialize_der());
        let mut tls = ServerConfig::builder_with_provider(provider(library))
            .with_protocol_versions(&[&TLS13])?
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key.into())?;
        tls.alpn_protocols = vec![ALPN.to_vec()];
        Ok(Self {
            tls,
            certificate_pem: certified_key.cert.pem(),
            key_pem: certified_key.signing_key.serialize_pem(),
        })
    }
}

/// Prints the address and certificate of the listening end on standard output.
fn listens(address: SocketAddr, certificate_pem: String) -> Result<()> {
    let listening = Listening {
        address,
        certificate_pem,
    };
    Ok(write_line(&mut std::io::stdout().lock(), &listening)?)
}

/// Settings of the sending end: TLS, address and data.
struct Client {
    tls: ClientConfig,
    /// The trusted certificate as PEM, for a library that does not use rustls.
    certificate_pem: String,
    address: SocketAddr,
    bytes: u64,
    payload: Bytes,
}

impl Client {
    /// Reads the receiver's first line from standard input.
    fn new(library: Library, bytes: u64, message: usize) -> Result<Self> {
        let mut line = String::new();
        std::io::stdin().lock().read_line(&mut line)?;
        let listening: Listening = serde_json::from_str(&line)?;
        let certificate = CertificateDer::from_pem_slice(listening.certificate_pem.as_bytes())?;
        let mut roots = RootCertStore::empty();
        roots.add(certificate)?;
        let mut tls = ClientConfig::builder_with_provider(provider(library))
            .with_protocol_versions(&[&TLS13])?
            .with_root_certificates(roots)
            .with_no_client_auth();
        tls.alpn_protocols = vec![ALPN.to_vec()];
        // The cryptographic library seeds its random numbers from the CPU's jitter when it first
        // needs one, which takes tens of milliseconds; ours is not measured with that either.
        random(&mut [0; 16])?;
        Ok(Self {
            tls,
            certificate_pem: listening.certificate_pem,
            address: listening.address,
            bytes,
            payload: Bytes::from(b"DATA".repeat(message.div_ceil(4))).slice(..message),
        })
    }

    /// Returns the messages, without copying, the last one shorter.
    fn messages(&self) -> impl Iterator<Item = Bytes> {
        let (message, payload) = (self.payload.len() as u64, self.payload.clone());
        let count = self.bytes.div_ceil(message);
        let bytes = self.bytes;
        (0..count).map(move |index| {
            let length = message.min(bytes - index * message);
            payload.slice(..length as usize)
        })
    }
}

/// Prints the bytes and the time of the transfer.
fn transferred(acknowledged: [u8; 8], time: Duration) -> Result<()> {
    let transferred = Transferred {
        bytes: u64::from_be_bytes(acknowledged),
        transfer_time_ns: nanoseconds(time),
    };
    println!("{}", serde_json::to_string(&transferred)?);
    Ok(())
}

/// Listens, prints the address on standard output, receives `bytes` from one stream, acknowledges
/// and ends.
///
/// # Errors
/// [`BenchError::Reference`] when the connection breaks; [`BenchError::Io`] for sockets.
pub fn receive(library: Library, bytes: u64) -> std::result::Result<(), BenchError> {
    let received = Server::new(library).and_then(|server| match library {
        Library::Quinn => quinn::receive(server, bytes),
        Library::Noq => noq::receive(server, bytes),
        Library::Quiche => quiche::receive(server, bytes),
        Library::S2n => s2n::receive(server, bytes),
    });
    received.map_err(BenchError::of_reference)
}

/// Reads the receiver's first line from standard input, sends `bytes` in writes of `message`
/// bytes, waits for the acknowledgement and prints [`Transferred`].
///
/// # Errors
/// [`BenchError::Reference`] when the connection breaks; [`BenchError::Io`] for sockets.
pub fn send(library: Library, bytes: u64, message: usize) -> std::result::Result<(), BenchError> {
    let sent = Client::new(library, bytes, message).and_then(|client| match library {
        Library::Quinn => quinn::send(client),
        Library::Noq => noq::send(client),
        Library::Quiche => quiche::send(client),
        Library::S2n => s2n::send(client),
    });
    sent.map_err(BenchError::of_reference)
}
