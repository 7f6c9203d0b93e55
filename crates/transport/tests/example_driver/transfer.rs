//! A system that moves whole files its own way, as small as one can be: two TCP connections, blocks
//! taken in turn, one byte of acknowledgement on each. Its probes are those of the example beside it.

use std::{
    collections::BTreeMap,
    io::{self, Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    sync::Arc,
    thread,
    time::Instant,
};

use regatta_control::TrialOrder;
use regatta_model::{OptionValue, reason};
use regatta_transport::{
    Abort, Carries, ClientSession, Driver, DriverDescriptor, FileReceiver, FileSender,
    ProtocolSample, ServerSession, StatisticsSource, Stop, TransferEndpoint, TransferSession,
    TransportError, TrialContext, Unsupported,
    transfer::{Connections, Incoming, Outgoing},
};

use super::{Connecting, Listening, MonotonicTime, POLL_INTERVAL, TcpEnd};

/// Bytes of a block.
const BLOCK: u64 = 50_001;

const CONNECTIONS: u64 = 2;

/// Value sent instead of a block's offset when there is no further block.
const END: u64 = u64::MAX;

static DESCRIPTOR: DriverDescriptor = DriverDescriptor {
    name: "files-std",
    title: "Files over the standard library",
    summary: "the example of a driver of transfers",
    carries: Carries::Files,
    ..super::DESCRIPTOR
};

struct FilesStd;

impl Driver for FilesStd {
    fn descriptor(&self) -> &'static DriverDescriptor {
        &DESCRIPTOR
    }

    fn supported(&self, _: &BTreeMap<String, OptionValue>) -> Result<(), Unsupported> {
        Ok(())
    }

    fn client(
        &self,
        order: &TrialOrder,
        context: TrialContext,
    ) -> Result<Box<dyn ClientSession>, TransportError> {
        let sender = Sender(TcpEnd::client(order));
        Ok(TransferSession::new(sender, order, context)?)
    }

    fn server(
        &self,
        order: &TrialOrder,
        context: TrialContext,
    ) -> Result<Box<dyn ServerSession>, TransportError> {
        let listen = || {
            let listener = TcpListener::bind((order.local, 0))?;
            listener.set_nonblocking(true)?;
            Ok(listener)
        };
        let receiver = Receiver {
            flows: TcpEnd::server(order)?,
            listener: listen().map_err(TransportError::io(reason::cannot_listen()))?,
        };
        Ok(TransferSession::new(receiver, order, context)?)
    }
}

struct Sender(TcpEnd<Connecting>);

struct Receiver {
    flows: TcpEnd<Listening>,
    listener: TcpListener,
}

struct Socket(TcpStream);

impl Abort for Socket {
    fn abort(&self) {
        // A socket that is not connected any more needs no waking.
        let _ = self.0.shutdown(Shutdown::Both);
    }
}

impl StatisticsSource for Socket {
    fn sample(&self) -> Option<ProtocolSample> {
        Some(ProtocolSample::default())
    }
}

fn stopped<T>(stop: &Stop, result: io::Result<T>) -> Result<T, TransportError> {
    match result {
        Err(_) if stop.is_stopped() => Err(TransportError::Cancelled),
        result => result.map_err(TransportError::io(reason::cannot_send())),
    }
}

impl Sender {
    fn send_part(
        offer: &str,
        number: u64,
        outgoing: &Arc<Outgoing>,
        connections: &Connections,
        stop: &Stop,
    ) -> Result<(), TransportError> {
        let begun = Instant::now();
        let socket = Arc::new(Socket(stopped(stop, TcpStream::connect(offer))?));
        stop.on_stop(&socket);
        connections.made(
            Arc::clone(&socket) as Arc<dyn StatisticsSource>,
            Some(begun.elapsed()),
        );
        let mut scratch = vec![0; 20_000];
        let write = |bytes: &[u8]| stopped(stop, (&socket.0).write_all(bytes));
        let mut offset = number * BLOCK;
        while offset < outgoing.size() {
            let length = BLOCK.min(outgoing.size() - offset);
            write(&offset.to_le_bytes())?;
            write(&length.to_le_bytes())?;
            let mut part = outgoing.part(offset);
            let mut done = 0;
            while done < length {
                let most = (length - done) as usize;
                let bytes = part.read(offset + done, most, &mut scratch)?;
                done += bytes.len() as u64;
                write(bytes)?;
            }
            offset += CONNECTIONS * BLOCK;
        }
        write(&END.to_le_bytes())?;
        stopped(stop, (&socket.0).read_exact(&mut [0]))
    }
}

impl Receiver {
    fn receive_part(
        socket: &TcpStream,
        incoming: &Arc<Incoming>,
        stop: &Stop,
    ) -> Result<(), TransportError> {
        let mut scratch = vec![0; 30_000];
        let mut number = [0; 8];
        loop {
            let mut socket = socket;
            stopped(stop, socket.read_exact(&mut number))?;
            let offset = u64::from_le_bytes(number);
            if offset == END {
                return stopped(stop, socket.write_all(&[1]));
            }
            stopped(stop, socket.read_exact(&mut number))?;
            let mut left = u64::from_le_bytes(number);
            let mut part = incoming.part(offset);
            while left > 0 {
                let most = left.min(scratch.len() as u64) as usize;
                let came = stopped(stop, socket.read(&mut scratch[..most]))?;
                if came == 0 {
                    return Err(TransportError::Closed { flow: "transfer" });
                }
                part.take(&scratch[..came])?;
                left -= came as u64;
            }
        }
    }

    fn accept(&self, stop: &Stop) -> Result<Arc<Socket>, TransportError> {
        loop {
            match self.listener.accept() {
                Ok((socket, _)) => {
                    stopped(stop, socket.set_nonblocking(false))?;
                    let socket = Arc::new(Socket(socket));
                    stop.on_stop(&socket);
                    return Ok(socket);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if stop.wait_until(MonotonicTime::now() + POLL_INTERVAL) {
                        return Err(TransportError::Cancelled);
                    }
                }
                Err(error) => return Err(TransportError::io(reason::cannot_accept())(error)),
            }
        }
    }
}

/// Returns the first error, if there is one.
fn all(
    threads: Vec<thread::ScopedJoinHandle<'_, Result<(), TransportError>>>,
) -> Result<(), TransportError> {
    threads
        .into_iter()
        .try_for_each(|thread| thread.join().expect("no panic"))
}

impl TransferEndpoint for Sender {
    type Flows = TcpEnd<Connecting>;

    fn flows(&self) -> &Self::Flows {
        &self.0
    }
}

impl FileSender for Sender {
    fn send(
        &self,
        offer: &str,
        outgoing: &Arc<Outgoing>,
        connections: &Arc<Connections>,
        stop: &Stop,
    ) -> Result<MonotonicTime, TransportError> {
        thread::scope(|scope| {
            let part = |number| {
                scope.spawn(move || Self::send_part(offer, number, outgoing, connections, stop))
            };
            all((0..CONNECTIONS).map(part).collect())
        })?;
        Ok(MonotonicTime::now())
    }
}

impl TransferEndpoint for Receiver {
    type Flows = TcpEnd<Listening>;

    fn flows(&self) -> &Self::Flows {
        &self.flows
    }
}

impl FileReceiver for Receiver {
    fn offer(&self) -> Result<String, TransportError> {
        let address = self.listener.local_addr();
        Ok(address.expect("it is bound").to_string())
    }

    fn receive(
        &self,
        incoming: &Arc<Incoming>,
        connections: &Arc<Connections>,
        stop: &Stop,
    ) -> Result<(), TransportError> {
        thread::scope(|scope| {
            let mut threads = Vec::new();
            for _ in 0..CONNECTIONS {
                let socket = self.accept(stop)?;
                connections.arrived();
                connections.made(Arc::clone(&socket) as Arc<dyn StatisticsSource>, None);
                threads.push(scope.spawn(move || Self::receive_part(&socket.0, incoming, stop)));
            }
            all(threads)
        })
    }
}

regatta_test_contract::contract_tests! { files_std: files => &FilesStd }
