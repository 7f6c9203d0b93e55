//! Reference program on s2n-quic.

use std::{
    net::{Ipv4Addr, UdpSocket},
    time::Instant,
};

use bytes::Bytes;
use s2n_quic::{
    client::Connect,
    provider::{
        congestion_controller::Cubic,
        io::tokio::{Builder as Io, Provider},
        limits::Limits,
        tls::rustls as tls,
    },
};

use super::{Client, PAYLOAD_BYTES, SERVER_NAME, Server, WINDOW_BYTES};
use crate::error::BenchError;

/// Bytes of a packet of the path: the payload and the headers of UDP and IPv4.
const PACKET_BYTES: u16 = PAYLOAD_BYTES + 28;

/// Bytes of the buffers for received packets, as the driver has them.
const RECEIVE_RING_BYTES: usize = 1 << 20;

fn limits() -> Result<Limits, BenchError> {
    let window = u64::from(WINDOW_BYTES);
    Limits::new()
        .with_data_window(window)
        .and_then(|limits| limits.with_bidirectional_local_data_window(window))
        .and_then(|limits| limits.with_bidirectional_remote_data_window(window))
        .and_then(|limits| limits.with_max_send_buffer_size(WINDOW_BYTES))
        .map_err(|error| BenchError::reference(error.to_string()))
}

fn io() -> Result<Provider, BenchError> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    super::size_buffers(&socket)?;
    Ok(Io::default()
        .with_rx_socket(socket)?
        .with_internal_recv_buffer_size(RECEIVE_RING_BYTES)?
        .with_max_mtu(PACKET_BYTES)?
        .with_initial_mtu(PACKET_BYTES)?
        .with_base_mtu(PACKET_BYTES)?
        .build()?)
}

pub fn receive(server: Server, bytes: u64) -> Result<(), BenchError> {
    super::runtime()?.block_on(async {
        let mut endpoint = s2n_quic::Server::builder()
            .with_tls(tls::Server::from(server.tls))
            .map_err(BenchError::reference)?
            .with_io(io()?)
            .map_err(BenchError::reference)?
            .with_limits(limits()?)
            .map_err(BenchError::reference)?
            .with_congestion_controller(Cubic::default())
            .map_err(BenchError::reference)?
            .start()
            .map_err(BenchError::reference)?;
        super::listens(endpoint.local_addr()?, server.certificate_der_base64)?;
        let mut connection = endpoint
            .accept()
            .await
            .ok_or_else(|| BenchError::reference("the endpoint closed"))?;
        let mut stream = connection
            .accept_bidirectional_stream()
            .await
            .map_err(BenchError::reference)?
            .ok_or_else(|| BenchError::reference("the connection closed"))?;
        let mut received = 0;
        let mut chunks = [const { Bytes::new() }; 16];
        while received < bytes {
            let (count, is_open) = stream
                .receive_vectored(&mut chunks)
                .await
                .map_err(BenchError::reference)?;
            for chunk in &mut chunks[..count] {
                received += std::mem::take(chunk).len() as u64;
            }
            if !is_open && received < bytes {
                return Err(BenchError::reference("the stream ended early"));
            }
        }
        let answer = Bytes::copy_from_slice(&received.to_be_bytes());
        stream.send(answer).await.map_err(BenchError::reference)?;
        // The sender closes once it has the acknowledgement.
        let _ = connection.accept().await;
        Ok(())
    })
}

pub fn send(client: Client) -> Result<(), BenchError> {
    super::runtime()?.block_on(async {
        let mut endpoint = s2n_quic::Client::builder()
            .with_tls(tls::Client::from(client.tls.clone()))
            .map_err(BenchError::reference)?
            .with_io(io()?)
            .map_err(BenchError::reference)?
            .with_limits(limits()?)
            .map_err(BenchError::reference)?
            .with_congestion_controller(Cubic::default())
            .map_err(BenchError::reference)?
            .start()
            .map_err(BenchError::reference)?;
        let started = Instant::now();
        let mut connection = endpoint
            .connect(Connect::new(client.address).with_server_name(SERVER_NAME))
            .await
            .map_err(BenchError::reference)?;
        let mut stream = connection
            .open_bidirectional_stream()
            .await
            .map_err(BenchError::reference)?;
        for message in client.messages() {
            stream.send(message).await.map_err(BenchError::reference)?;
        }
        let mut acknowledged = Vec::with_capacity(8);
        while acknowledged.len() < 8 {
            let chunk = stream
                .receive()
                .await
                .map_err(BenchError::reference)?
                .ok_or_else(|| BenchError::reference("the stream ended early"))?;
            acknowledged.extend_from_slice(&chunk);
        }
        let time = started.elapsed();
        let acknowledged = acknowledged
            .try_into()
            .map_err(|_| BenchError::reference("the acknowledgement is too long"))?;
        super::transferred(acknowledged, time)?;
        connection.close(0_u32.into());
        drop((stream, connection));
        endpoint.wait_idle().await.map_err(BenchError::reference)
    })
}
