//! Reference program on quiche, in the manner of its examples: a loop that receives and sends what
//! it can and sleeps until a packet arrives or a timer is due.
//!
//! Segmentation and receive offload are used, the first of them as in quiche's own server.

use std::{
    io::{self, IoSliceMut, Write},
    net::{Ipv4Addr, SocketAddr, UdpSocket},
    os::fd::AsRawFd,
    time::{Duration, Instant},
};

use quiche::{Config, Connection, ConnectionId, RecvInfo};
use quinn_udp::{RecvMeta, Transmit, UdpSocketState};
use tempfile::NamedTempFile;

use super::{ALPN, Client, PAYLOAD_BYTES, Result, SERVER_NAME, Server, WINDOW_BYTES};

/// Stream of the transfer: the first one that a client opens in both directions.
const STREAM: u64 = 0;

/// Maximum number of packets of one system call.
const MAX_SEGMENTS: usize = 44;

/// Buffers that one system call fills.
const RECEIVE_BUFFERS: usize = 8;

/// Writes `text` to a file for as long as the value lives: quiche reads certificates from files.
fn temporary(text: &str) -> Result<NamedTempFile> {
    let mut file = NamedTempFile::new()?;
    file.write_all(text.as_bytes())?;
    Ok(file)
}

fn path(file: &NamedTempFile) -> Result<&str> {
    let path = file.path().to_str();
    Ok(path.ok_or("the directory for temporary files is not UTF-8")?)
}

fn config() -> Result<Config> {
    let window = u64::from(WINDOW_BYTES);
    let mut config = Config::new(quiche::PROTOCOL_VERSION)?;
    config.set_application_protos(&[ALPN])?;
    config.set_cc_algorithm(quiche::CongestionControlAlgorithm::CUBIC);
    config.set_initial_max_data(window);
    config.set_max_connection_window(window);
    config.set_initial_max_stream_data_bidi_local(window);
    config.set_initial_max_stream_data_bidi_remote(window);
    config.set_max_stream_window(window);
    config.set_initial_max_streams_bidi(1);
    config.set_max_send_udp_payload_size(PAYLOAD_BYTES.into());
    config.set_max_recv_udp_payload_size(PAYLOAD_BYTES.into());
    Ok(config)
}

/// Connection with its socket.
struct Port {
    socket: UdpSocket,
    offloads: UdpSocketState,
    local: SocketAddr,
    buffers: Vec<Vec<u8>>,
    out: Vec<u8>,
}

impl Port {
    fn new() -> Result<Self> {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        super::size_buffers(&socket)?;
        let offloads = UdpSocketState::new((&socket).into())?;
        Ok(Self {
            local: socket.local_addr()?,
            offloads,
            socket,
            buffers: vec![vec![0; 65_536]; RECEIVE_BUFFERS],
            out: vec![0; MAX_SEGMENTS * usize::from(PAYLOAD_BYTES)],
        })
    }

    /// Receives the datagrams that are there; returns whether there were any.
    fn receive(
        &mut self,
        mut take: impl FnMut(&mut [u8], SocketAddr) -> Result<()>,
    ) -> Result<bool> {
        let mut meta = [RecvMeta::default(); RECEIVE_BUFFERS];
        let mut buffers = self.buffers.iter_mut();
        let mut slices: [IoSliceMut<'_>; RECEIVE_BUFFERS] = std::array::from_fn(|_| {
            IoSliceMut::new(buffers.next().map_or(&mut [][..], Vec::as_mut_slice))
        });
        let socket = (&self.socket).into();
        let count = match self.offloads.recv(socket, &mut slices, &mut meta) {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(error.into()),
        };
        for (buffer, meta) in self.buffers.iter_mut().zip(&meta[..count]) {
            for packet in buffer[..meta.len].chunks_mut(meta.stride.max(1)) {
                take(packet, meta.addr)?;
            }
        }
        Ok(true)
    }

    /// Passes the datagrams that are there to the connection.
    fn receive_all(&mut self, connection: &mut Connection) -> Result<()> {
        let to = self.local;
        while self.receive(
            |packet, from| match connection.recv(packet, RecvInfo { from, to }) {
                Ok(_) | Err(quiche::Error::Done) => Ok(()),
                Err(error) => Err(error.into()),
            },
        )? {}
        Ok(())
    }

    /// Sends all that the connection has, in batches of packets of one size.
    fn send_all(&mut self, connection: &mut Connection) -> Result<()> {
        loop {
            let (mut length, mut segment, mut to) = (0, 0, None);
            while length + usize::from(PAYLOAD_BYTES) <= self.out.len() {
                let buffer = &mut self.out[length..length + usize::from(PAYLOAD_BYTES)];
                let size = match connection.send(buffer) {
                    Ok((size, info)) => {
                        to = Some(info.to);
                        size
                    }
                    Err(quiche::Error::Done) => break,
                    Err(error) => return Err(error.into()),
                };
                if segment == 0 {
                    segment = size;
                } else if size > segment {
                    // A longer packet after shorter ones leaves alone.
                    self.hand_over(length, segment, to)?;
                    self.out.copy_within(length..length + size, 0);
                    (length, segment) = (0, size);
                }
                length += size;
                if size < segment {
                    break;
                }
            }
            if length == 0 {
                return Ok(());
            }
            self.hand_over(length, segment, to)?;
        }
    }

    fn hand_over(&self, length: usize, segment: usize, to: Option<SocketAddr>) -> Result<()> {
        let Some(destination) = to else {
            return Ok(());
        };
        let transmit = Transmit {
            destination,
            ecn: None,
            contents: &self.out[..length],
            segment_size: Some(segment),
            src_ip: None,
        };
        loop {
            match self.offloads.send((&self.socket).into(), &transmit) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.wait(libc::POLLOUT, None)?;
                }
                sent => return Ok(sent?),
            }
        }
    }

    /// Sleeps until the socket is ready, or the time is over.
    fn wait(&self, events: libc::c_short, time: Option<Duration>) -> Result<()> {
        let mut poll = libc::pollfd {
            fd: self.socket.as_raw_fd(),
            events,
            revents: 0,
        };
        // Rounded up, so that the timer is due when it wakes.
        let milliseconds = time.map_or(-1, |time| time.as_millis() as libc::c_int + 1);
        // SAFETY: one descriptor, which is open while `self` is borrowed.
        let result = unsafe { libc::poll(&raw mut poll, 1, milliseconds) };
        if result < 0 && io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
            return Err(io::Error::last_os_error().into());
        }
        Ok(())
    }

    /// Runs the connection until `turn` returns true.
    fn run(
        &mut self,
        connection: &mut Connection,
        mut turn: impl FnMut(&mut Connection) -> Result<bool>,
    ) -> Result<()> {
        loop {
            self.receive_all(connection)?;
            let over = turn(connection)?;
            self.send_all(connection)?;
            if over || connection.is_closed() {
                return Ok(());
            }
            let time = connection.timeout();
            self.wait(libc::POLLIN, time)?;
            // It looks at the clock itself.
            connection.on_timeout();
        }
    }
}

fn identifier() -> Result<[u8; quiche::MAX_CONN_ID_LEN]> {
    let mut bytes = [0; quiche::MAX_CONN_ID_LEN];
    super::random(&mut bytes)?;
    Ok(bytes)
}

pub fn receive(server: Server, bytes: u64) -> Result<()> {
    let certificate = temporary(&server.certificate_pem)?;
    let key = temporary(&server.key_pem)?;
    let mut config = config()?;
    config.load_cert_chain_from_pem_file(path(&certificate)?)?;
    config.load_priv_key_from_pem_file(path(&key)?)?;
    let mut port = Port::new()?;
    super::listens(port.local, server.certificate_pem)?;

    let identifier = identifier()?;
    let local = port.local;
    let mut first = None;
    while first.is_none() {
        port.wait(libc::POLLIN, None)?;
        port.receive(|packet, from| {
            if first.is_none() {
                let scid = ConnectionId::from_ref(&identifier);
                let mut connection = quiche::accept(&scid, None, local, from, &mut config)?;
                connection.recv(packet, RecvInfo { from, to: local })?;
                first = Some(connection);
            }
            Ok(())
        })?;
    }
    let Some(mut connection) = first else {
        return Ok(());
    };
    let (mut received, mut answered) = (0, false);
    let mut buffer = vec![0; 1 << 17];
    port.run(&mut connection, |connection| {
        while received < bytes {
            match connection.stream_recv(STREAM, &mut buffer) {
                Ok((count, _)) => received += count as u64,
                Err(quiche::Error::Done | quiche::Error::InvalidStreamState(_)) => break,
                Err(error) => return Err(error.into()),
            }
        }
        if received >= bytes && !answered {
            connection.stream_send(STREAM, &received.to_be_bytes(), true)?;
            answered = true;
        }
        // The sender closes once it has the acknowledgement.
        Ok(connection.is_draining())
    })
}

pub fn send(client: Client) -> Result<()> {
    let certificate = temporary(&client.certificate_pem)?;
    let mut config = config()?;
    config.verify_peer(true);
    config.load_verify_locations_from_file(path(&certificate)?)?;
    let mut port = Port::new()?;
    let identifier = identifier()?;
    let scid = ConnectionId::from_ref(&identifier);
    let started = Instant::now();
    let mut connection = quiche::connect(
        Some(SERVER_NAME),
        &scid,
        port.local,
        client.address,
        &mut config,
    )?;
    let mut messages = client.messages();
    let mut message = messages.next();
    let mut answer = Vec::with_capacity(8);
    let mut time = None;
    port.run(&mut connection, |connection| {
        if !connection.is_established() {
            return Ok(false);
        }
        while let Some(remaining) = &mut message {
            match connection.stream_send(STREAM, remaining, false) {
                Ok(count) => {
                    let _ = remaining.split_to(count);
                    if remaining.is_empty() {
                        message = messages.next();
                    }
                }
                Err(quiche::Error::Done) => break,
                Err(error) => return Err(error.into()),
            }
        }
        let mut buffer = [0; 8];
        match connection.stream_recv(STREAM, &mut buffer) {
            Ok((count, _)) => answer.extend_from_slice(&buffer[..count]),
            Err(quiche::Error::Done | quiche::Error::InvalidStreamState(_)) => {}
            Err(error) => return Err(error.into()),
        }
        if answer.len() < 8 {
            return Ok(false);
        }
        time = Some(started.elapsed());
        connection.close(true, 0, b"done")?;
        Ok(true)
    })?;
    match (<[u8; 8]>::try_from(answer), time) {
        (Ok(answer), Some(time)) => super::transferred(answer, time),
        _ => Err("the connection closed early".into()),
    }
}
