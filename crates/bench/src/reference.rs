//! The least program that moves bytes with quinn: what the `quic-quinn` driver is held against.
//!
//! One connection, one stream, one message size, an acknowledgement of eight bytes; no headers, no
//! checks, no sampling. It states its own tuning instead of taking the driver's, so that a badly
//! tuned driver shows. Each end is a process of its own with one current-thread runtime.

use std::{
    io::{BufRead, Write},
    net::{Ipv4Addr, SocketAddr, UdpSocket},
    sync::Arc,
    time::Instant,
};

use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use bytes::Bytes;
use quinn::{
    ClientConfig, Endpoint, EndpointConfig, ServerConfig, TokioRuntime, TransportConfig, VarInt,
    crypto::rustls::{QuicClientConfig, QuicServerConfig},
};
use serde::{Deserialize, Serialize};

use crate::error::BenchError;

/// Name in the certificate.
const SERVER_NAME: &str = "regatta";

/// Largest UDP payload in an IPv4 packet of 1500 bytes.
const PAYLOAD_BYTES: u16 = 1472;

/// Flow-control windows: above what loopback holds in flight, so that nothing waits for credit.
const WINDOW_BYTES: u32 = 4 << 20;

/// Socket buffers: they hold a whole window, so that nothing is lost.
const BUFFER_BYTES: usize = 8 << 20;

/// First line of the listening end: where it listens and which certificate it shows.
#[derive(Debug, Serialize, Deserialize)]
pub struct Listening {
    /// Address to connect to.
    pub address: SocketAddr,
    /// Its certificate, DER, base64.
    pub certificate_der_base64: String,
}

/// Last line of the sending end.
#[derive(Debug, Serialize, Deserialize)]
pub struct Transferred {
    /// Bytes that the receiver acknowledged.
    pub bytes: u64,
    /// From the connect call to the arrival of the acknowledgement, in nanoseconds.
    pub transfer_time_ns: u64,
}

fn transport() -> TransportConfig {
    let mut transport = TransportConfig::default();
    transport
        .stream_receive_window(VarInt::from_u32(WINDOW_BYTES))
        .receive_window(VarInt::from_u32(WINDOW_BYTES))
        .send_window(u64::from(WINDOW_BYTES))
        .initial_mtu(PAYLOAD_BYTES)
        .min_mtu(PAYLOAD_BYTES)
        .mtu_discovery_config(None)
        .congestion_controller_factory(Arc::new(quinn::congestion::CubicConfig::default()));
    transport
}

/// The one cipher suite of both programs.
fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::CryptoProvider {
        cipher_suites: vec![rustls::crypto::aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256],
        ..rustls::crypto::aws_lc_rs::default_provider()
    })
}

fn endpoint(server: Option<ServerConfig>) -> Result<Endpoint, BenchError> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    let buffers = socket2::SockRef::from(&socket);
    buffers.set_recv_buffer_size(BUFFER_BYTES)?;
    buffers.set_send_buffer_size(BUFFER_BYTES)?;
    Ok(Endpoint::new(
        EndpointConfig::default(),
        server,
        socket,
        Arc::new(TokioRuntime),
    )?)
}

fn runtime() -> Result<tokio::runtime::Runtime, BenchError> {
    Ok(tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?)
}

/// Listens, says where on standard output, takes `bytes` from one stream, acknowledges, ends.
///
/// # Errors
/// [`BenchError::Reference`] when the connection breaks; [`BenchError::Io`] for sockets.
pub fn receive(bytes: u64) -> Result<(), BenchError> {
    let made = rcgen::generate_simple_self_signed(vec![SERVER_NAME.to_owned()])
        .map_err(BenchError::reference)?;
    let certificate = made.cert.der().clone();
    let key = rustls::pki_types::PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let mut tls = rustls::ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(BenchError::reference)?
        .with_no_client_auth()
        .with_single_cert(vec![certificate.clone()], key.into())
        .map_err(BenchError::reference)?;
    tls.alpn_protocols = vec![b"bench".to_vec()];
    let mut config = ServerConfig::with_crypto(Arc::new(
        QuicServerConfig::try_from(tls).map_err(BenchError::reference)?,
    ));
    config.transport_config(Arc::new(transport()));

    runtime()?.block_on(async {
        let endpoint = endpoint(Some(config))?;
        let listening = Listening {
            address: endpoint.local_addr()?,
            certificate_der_base64: BASE64.encode(&certificate),
        };
        let mut out = std::io::stdout().lock();
        writeln!(out, "{}", serde_json::to_string(&listening)?)?;
        out.flush()?;

        let incoming = endpoint
            .accept()
            .await
            .ok_or_else(|| BenchError::reference("the endpoint closed"))?;
        let connection = incoming.await.map_err(BenchError::reference)?;
        let (mut answer, mut stream) = connection
            .accept_bi()
            .await
            .map_err(BenchError::reference)?;
        let mut received = 0;
        while received < bytes {
            let chunk = stream
                .read_chunk(usize::MAX, true)
                .await
                .map_err(BenchError::reference)?
                .ok_or_else(|| BenchError::reference("the stream ended early"))?;
            received += chunk.bytes.len() as u64;
        }
        answer
            .write_all(&received.to_be_bytes())
            .await
            .map_err(BenchError::reference)?;
        // The sender closes once it has the acknowledgement.
        connection.closed().await;
        Ok(())
    })
}

/// Reads the receiver's first line from standard input, sends `bytes` in writes of `message`
/// bytes, waits for the acknowledgement and prints [`Transferred`].
///
/// # Errors
/// [`BenchError::Reference`] when the connection breaks; [`BenchError::Io`] for sockets.
pub fn send(bytes: u64, message: usize) -> Result<(), BenchError> {
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line)?;
    let listening: Listening = serde_json::from_str(&line)?;
    let mut roots = rustls::RootCertStore::empty();
    roots
        .add(
            BASE64
                .decode(&listening.certificate_der_base64)
                .map_err(BenchError::reference)?
                .into(),
        )
        .map_err(BenchError::reference)?;
    let mut tls = rustls::ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(BenchError::reference)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    tls.alpn_protocols = vec![b"bench".to_vec()];
    let mut config = ClientConfig::new(Arc::new(
        QuicClientConfig::try_from(tls).map_err(BenchError::reference)?,
    ));
    config.transport_config(Arc::new(transport()));

    // The cryptographic library seeds its random numbers from the CPU's jitter when it first needs
    // one, which takes tens of milliseconds; ours is not measured with that either.
    provider()
        .secure_random
        .fill(&mut [0; 16])
        .map_err(|_| BenchError::reference("the system gives no random numbers"))?;

    runtime()?.block_on(async {
        let endpoint = endpoint(None)?;
        let payload = Bytes::from(b"DATA".repeat(message.div_ceil(4)));
        let started = Instant::now();
        let connection = endpoint
            .connect_with(config, listening.address, SERVER_NAME)
            .map_err(BenchError::reference)?
            .await
            .map_err(BenchError::reference)?;
        let (mut stream, mut answer) = connection.open_bi().await.map_err(BenchError::reference)?;
        let mut left = bytes;
        while left > 0 {
            let part = left.min(message as u64);
            stream
                .write_chunk(payload.slice(..part as usize))
                .await
                .map_err(BenchError::reference)?;
            left -= part;
        }
        let mut acknowledged = [0; 8];
        answer
            .read_exact(&mut acknowledged)
            .await
            .map_err(BenchError::reference)?;
        let transfer_time = started.elapsed();
        println!(
            "{}",
            serde_json::to_string(&Transferred {
                bytes: u64::from_be_bytes(acknowledged),
                transfer_time_ns: transfer_time.as_nanos() as u64,
            })?
        );
        connection.close(0_u32.into(), b"done");
        endpoint.wait_idle().await;
        Ok(())
    })
}
