//! Reference program on quinn, or on its fork noq: a module for each includes this text, and its
//! `quic` names the library.

use std::{
    net::{Ipv4Addr, UdpSocket},
    sync::Arc,
    time::Instant,
};

use bytes::Bytes;

use super::WINDOW_BYTES;
use super::quic::{
    ClientConfig, Endpoint, EndpointConfig, ServerConfig, TokioRuntime, TransportConfig, VarInt,
    congestion::CubicConfig,
    crypto::rustls::{QuicClientConfig, QuicServerConfig},
};
use crate::{
    error::BenchError,
    reference::{self, Client, PAYLOAD_BYTES, SERVER_NAME, Server},
};

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

fn endpoint(server: Option<ServerConfig>) -> Result<Endpoint, BenchError> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    reference::size_buffers(&socket)?;
    Ok(Endpoint::new(
        EndpointConfig::default(),
        server,
        socket,
        Arc::new(TokioRuntime),
    )?)
}

pub fn receive(server: Server, bytes: u64) -> Result<(), BenchError> {
    let mut config = ServerConfig::with_crypto(Arc::new(
        QuicServerConfig::try_from(server.tls).map_err(BenchError::reference)?,
    ));
    config.transport_config(Arc::new(transport()));

    reference::runtime()?.block_on(async {
        let endpoint = endpoint(Some(config))?;
        reference::listens(endpoint.local_addr()?, server.certificate_der_base64)?;
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
        let mut chunks = [const { Bytes::new() }; CHUNKS];
        while received < bytes {
            let count = super::read_chunks(&mut stream, &mut chunks)
                .await
                .map_err(BenchError::reference)?
                .ok_or_else(|| BenchError::reference("the stream ended early"))?;
            for chunk in &mut chunks[..count] {
                received += std::mem::take(chunk).len() as u64;
            }
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

pub fn send(client: Client) -> Result<(), BenchError> {
    let mut config = ClientConfig::new(Arc::new(
        QuicClientConfig::try_from(client.tls.clone()).map_err(BenchError::reference)?,
    ));
    config.transport_config(Arc::new(transport()));

    reference::runtime()?.block_on(async {
        let endpoint = endpoint(None)?;
        let started = Instant::now();
        let connection = endpoint
            .connect_with(config, client.address, SERVER_NAME)
            .map_err(BenchError::reference)?
            .await
            .map_err(BenchError::reference)?;
        let (mut stream, mut answer) = connection.open_bi().await.map_err(BenchError::reference)?;
        for message in client.messages() {
            stream
                .write_chunk(message)
                .await
                .map_err(BenchError::reference)?;
        }
        let mut acknowledged = [0; 8];
        answer
            .read_exact(&mut acknowledged)
            .await
            .map_err(BenchError::reference)?;
        reference::transferred(acknowledged, started.elapsed())?;
        connection.close(0_u32.into(), b"done");
        endpoint.wait_idle().await;
        Ok(())
    })
}
