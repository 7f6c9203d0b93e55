//! Sending and receiving many datagrams with one system call.

use std::{io, os::fd::AsRawFd};

use regatta_transport_sockets::message::{
    self, Control, MAX_RECEIVED, control_space, empty_entry, part,
};

/// Maximum number of segments that every kernel with UDP_SEGMENT takes at once
/// (`UDP_MAX_SEGMENTS`).
pub(crate) const MAX_SEGMENTS: usize = 64;

/// Longest payload of one datagram, and of all segments of one call together, in bytes.
pub(crate) const LONGEST_PAYLOAD: usize = 65_507;

/// Maximum number of entries of one call of `sendmmsg`.
const SEND_ENTRIES: usize = 32;

/// Size of the buffer for one datagram, or for all that receive offload puts together, in bytes.
const RECEIVE_BYTES: usize = 65_536;

/// Size of the ancillary data that sets the segment size of a send call (`UDP_SEGMENT`), in bytes.
const SEGMENT_BYTES: usize = control_space::<u16>();

/// Size of the ancillary data with the segment size of a receive call (`UDP_GRO`), in bytes.
const GRO_BYTES: usize = control_space::<libc::c_int>();

/// Sends the chunks of `payload`, each of `chunk` bytes but the last; returns the number of chunks
/// that the kernel took, at least one. With `segment` the kernel cuts each chunk into datagrams of
/// that many bytes.
pub(crate) fn send(
    socket: &impl AsRawFd,
    payload: &[u8],
    chunk: usize,
    segment: Option<u16>,
) -> io::Result<usize> {
    let mut parts = [part(&[]); SEND_ENTRIES];
    let mut entries = [empty_entry(); SEND_ENTRIES];
    let mut control = segment.map_or(Control::<SEGMENT_BYTES>::empty(), |segment| {
        Control::with(libc::SOL_UDP, libc::UDP_SEGMENT, segment)
    });
    let mut count = 0;
    for (index, piece) in payload.chunks(chunk).take(SEND_ENTRIES).enumerate() {
        parts[index] = part(piece);
        let header = &mut entries[index].msg_hdr;
        header.msg_iov = &raw mut parts[index];
        header.msg_iovlen = 1;
        if segment.is_some_and(|segment| piece.len() > usize::from(segment)) {
            control.attach(header);
        }
        count += 1;
    }
    let (socket, first) = (socket.as_raw_fd(), entries.as_mut_ptr());
    // SAFETY: `count` entries point to parts that point into `payload`, and to a control message;
    // all of them outlive the call, and the kernel only reads the payload.
    let sent = unsafe { libc::sendmmsg(socket, first, count, libc::MSG_NOSIGNAL) };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

/// Buffer for the datagrams of one receive call.
pub(crate) struct ReceiveBatch(Vec<u8>);

impl ReceiveBatch {
    /// Makes the buffer for several datagrams in a call, or with `is_single` for one.
    pub(crate) fn new(is_single: bool) -> Self {
        let entries = if is_single { 1 } else { MAX_RECEIVED };
        Self(vec![0; entries * RECEIVE_BYTES])
    }

    /// Receives without waiting, and passes each datagram to `consume`; returns their number.
    pub(crate) fn receive(
        &mut self,
        socket: &impl AsRawFd,
        consume: &mut impl FnMut(&[u8]),
    ) -> io::Result<usize> {
        let mut datagrams = 0;
        let each = |received: &message::Received<'_>| {
            let data = received.data;
            let mut control = received.control(libc::SOL_UDP);
            // Length of the datagrams that receive offload has put together, if it has.
            let segment = control.find(|datum| datum.cmsg_type == libc::UDP_GRO);
            // SAFETY: a datum of this type is a C integer.
            let segment = segment.map(|datum| unsafe { message::value::<libc::c_int>(datum) });
            let segment = segment.and_then(|bytes| usize::try_from(bytes).ok());
            if data.is_empty() {
                datagrams += 1;
                consume(data);
            }
            for datagram in data.chunks(segment.unwrap_or(data.len()).max(1)) {
                datagrams += 1;
                consume(datagram);
            }
        };
        message::receive::<GRO_BYTES>(socket, &mut self.0, RECEIVE_BYTES, MAX_RECEIVED, each)?;
        Ok(datagrams)
    }
}
