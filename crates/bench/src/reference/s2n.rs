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

use super::{Client, PAYLOAD_BYTES, Result, SERVER_NAME, Server, WINDOW_BYTES};

/// Bytes of a packet of the path: the payload and the headers of UDP and IPv4.
const PACKET_BYTES: u16 = PAYLOAD_BYTES + 28;

/// Bytes of the buffers for received packets, as the driver has them.
const RECEIVE_RING_BYTES: usize = 1 << 20;

fn limits() -> Result<Limits> {
    let window = u64::from(WINDOW_BYTES);
    let limits = Limits::new()
        .with_data_window(window)
        .and_then(|limits| limits.with_bidirectional_local_data_window(window))
        .and_then(|limits| limits.with_bidirectional_remote_data_window(window))
        .and_then(|limits| limits.with_max_send_buffer_size(WINDOW_BYTES))
        .map_err(|error| error.to_string())?;
    Ok(limits)
}

fn io() -> Result<Provider> {
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

pub fn receive(server: Server, bytes: u64) -> Result<()> {
    super::runtime()?.block_on(async {
        let mut endpoint = s2n_quic::Server::builder()
            .with_tls(tls::Server::from(server.tls))?
            .with_io(io()?)?
            .with_limits(limits()?)?
            .with_congestion_controller(Cubic::default())?
            .start()?;
        super::listens(endpoint.local_addr()?, server.certificate_pem)?;
        let mut connection = endpoint.accept().await.ok_or("the endpoint closed")?;
        let mut stream = connection
            .accept_bidirectional_stream()
            .await?
            .ok_or("the connection closed")?;
        let mut received = 0;
        let mut chunks = [const { Bytes::new() }; 16];
        while received < bytes {
            let (count, is_open) = stream.receive_vectored(&mut chunks).await?;
            for chunk in &mut chunks[..count] {
                received += std::mem::take(chunk).len() as u64;
            }
            if !is_open && received < bytes {
                return Err("the stream ended early".into());
            }
        }
        let answer = Bytes::copy_from_slice(&received.to_be_bytes());
        stream.send(answer).await?;
        // The sender closes once it has the acknowledgement.
        let _ = connection.accept().await;
        Ok(())
    })
}

pub fn send(client: Client) -> Result<()> {
    super::runtime()?.block_on(async {
        let mut endpoint = s2n_quic::Client::builder()
            .with_tls(tls::Client::from(client.tls.clone()))?
            .with_io(io()?)?
            .with_limits(limits()?)?
            .with_congestion_controller(Cubic::default())?
            .start()?;
        let started = Instant::now();
        let mut connection = endpoint
            .connect(Connect::new(client.address).with_server_name(SERVER_NAME))
            .await?;
        let mut stream = connection.open_bidirectional_stream().await?;
        for message in client.messages() {
            stream.send(message).await?;
        }
        let mut acknowledged = Vec::with_capacity(8);
        while acknowledged.len() < 8 {
            let chunk = stream.receive().await?.ok_or("the stream ended early")?;
            acknowledged.extend_from_slice(&chunk);
        }
        let time = started.elapsed();
        let acknowledged = acknowledged
            .try_into()
            .map_err(|_| "the acknowledgement is too long")?;
        super::transferred(acknowledged, time)?;
        connection.close(0_u32.into());
        drop((stream, connection));
        Ok(endpoint.wait_idle().await?)
    })
}
