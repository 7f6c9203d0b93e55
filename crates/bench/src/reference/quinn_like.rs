// Reference program on quinn, or on its fork noq: one text for both, each with its own types. The module of each library
// includes it, names the library `quic`, and has `WINDOW_BYTES` and `read_chunks`.

use std::{
    net::{Ipv4Addr, UdpSocket},
    sync::Arc,
    time::Instant,
};

use bytes::Bytes;
use quic::{
    ClientConfig, Endpoint, EndpointConfig, ServerConfig, TokioRuntime, TransportConfig, VarInt,
    congestion::CubicConfig,
    crypto::rustls::{QuicClientConfig, QuicServerConfig},
};

use crate::reference::{self, Client, PAYLOAD_BYTES, Result, SERVER_NAME, Server};

/// Chunks that are read under one lock of the connection, as in quinn's own perf program.
const CHUNKS: usize = 32;

fn transport() -> TransportConfig {
    let mut transport = TransportConfig::default();
    transport
        .stream_receive_window(VarInt::from_u32(WINDOW_BYTES))
        .receive_window(VarInt::from_u32(WINDOW_BYTES))
        .send_window(u64::from(WINDOW_BYTES))
        .initial_mtu(PAYLOAD_BYTES)
        .min_mtu(PAYLOAD_BYTES)
        .mtu_discovery_config(None)
        .congestion_controller_factory(Arc::new(CubicConfig::default()));
    transport
}

fn endpoint(server: Option<ServerConfig>) -> Result<Endpoint> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    reference::size_buffers(&socket)?;
    Ok(Endpoint::new(
        EndpointConfig::default(),
        server,
        socket,
        Arc::new(TokioRuntime),
    )?)
}

pub fn receive(server: Server, bytes: u64) -> Result<()> {
    let mut config = ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(server.tls)?));
    config.transport_config(Arc::new(transport()));

    reference::runtime()?.block_on(async {
        let endpoint = endpoint(Some(config))?;
        reference::listens(endpoint.local_addr()?, server.certificate_pem)?;
        let incoming = endpoint.accept().await.ok_or("the endpoint closed")?;
        let connection = incoming.await?;
        let (mut answer, mut stream) = connection.accept_bi().await?;
        let mut received = 0;
        let mut chunks = [const { Bytes::new() }; CHUNKS];
        while received < bytes {
            let count = read_chunks(&mut stream, &mut chunks)
                .await?
                .ok_or("the stream ended early")?;
            for chunk in &mut chunks[..count] {
                received += std::mem::take(chunk).len() as u64;
            }
        }
        answer.write_all(&received.to_be_bytes()).await?;
        // The sender closes once it has the acknowledgement.
        connection.closed().await;
        Ok(())
    })
}

pub fn send(client: Client) -> Result<()> {
    let mut config = ClientConfig::new(Arc::new(QuicClientConfig::try_from(client.tls.clone())?));
    config.transport_config(Arc::new(transport()));

    reference::runtime()?.block_on(async {
        let endpoint = endpoint(None)?;
        let started = Instant::now();
        let connection = endpoint
            .connect_with(config, client.address, SERVER_NAME)?
            .await?;
        let (mut stream, mut answer) = connection.open_bi().await?;
        for message in client.messages() {
            stream.write_chunk(message).await?;
        }
        let mut acknowledged = [0; 8];
        answer.read_exact(&mut acknowledged).await?;
        reference::transferred(acknowledged, started.elapsed())?;
        connection.close(0_u32.into(), b"done");
        endpoint.wait_idle().await;
        Ok(())
    })
}
