//! Definitions from the kernel's `linux/sctp.h`, those that are used and that `libc` does not have:
//! the socket interface of RFC 6458, with Linux's numbers and layouts.

/// Level of all socket options in this module.
pub(crate) const SOL_SCTP: libc::c_int = 132;

pub(crate) const BINDX_ADD: libc::c_int = 100;
pub(crate) const GET_PEER_ADDRS: libc::c_int = 108;
pub(crate) const GET_ASSOC_STATS: libc::c_int = 112;
pub(crate) const STREAM_SCHEDULER: libc::c_int = 123;
pub(crate) const EVENT: libc::c_int = 127;
pub(crate) const EXPOSE_PF_STATE: libc::c_int = 131;

/// Type of the notification that an association has begun or ended (`enum sctp_sn_type`).
pub(crate) const ASSOC_CHANGE: u16 = 0x8001;

/// Flags of [`PeerAddrParams`] (`enum sctp_spp_flags`).
pub(crate) const SPP_HB_ENABLE: u32 = 1;
pub(crate) const SPP_HB_DISABLE: u32 = 2;
pub(crate) const SPP_HB_DEMAND: u32 = 4;

/// Schedulers of streams (`enum sctp_sched_type`).
pub(crate) const SCHEDULER_FCFS: u32 = 0;
pub(crate) const SCHEDULER_ROUND_ROBIN: u32 = 2;

/// Value of [`EXPOSE_PF_STATE`] with which the potentially failed state is reported.
pub(crate) const PF_EXPOSED: u32 = 2;

/// State of an association that carries data (`enum sctp_sstat_state`).
pub(crate) const ESTABLISHED: i32 = 4;

/// States of a path (`enum sctp_spinfo_state`).
pub(crate) const PATH_INACTIVE: i32 = 0;
pub(crate) const PATH_POTENTIALLY_FAILED: i32 = 1;
pub(crate) const PATH_ACTIVE: i32 = 2;
pub(crate) const PATH_UNCONFIRMED: i32 = 3;

/// `struct sctp_rtoinfo`, in milliseconds.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RtoInfo {
    pub association: i32,
    pub initial: u32,
    pub max: u32,
    pub min: u32,
}

/// `struct sctp_assocparams`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct AssocParams {
    pub association: i32,
    pub max_retransmissions: u16,
    pub peer_destinations: u16,
    pub peer_window: u32,
    pub local_window: u32,
    pub cookie_life_ms: u32,
}

/// `struct sctp_sack_info`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct SackInfo {
    pub association: i32,
    pub delay_ms: u32,
    pub every: u32,
}

/// `struct sctp_assoc_value`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct AssocValue {
    pub association: i32,
    pub value: u32,
}

impl AssocValue {
    /// Returns a value for all associations of a socket.
    pub(crate) const fn of_all(value: u32) -> Self {
        Self {
            association: 0,
            value,
        }
    }
}

/// Offset of the state in `struct sctp_assoc_change`, which begins with its type, in bytes.
pub(crate) const ASSOC_CHANGE_STATE: usize = 8;

/// Size of this structure, in bytes; a received ABORT, if there was one, follows it.
pub(crate) const ASSOC_CHANGE_BYTES: usize = 20;

/// States of this notification after which there is no association (`enum sctp_sac_state`).
pub(crate) const COMM_LOST: u16 = 1;
pub(crate) const CANT_STR_ASSOC: u16 = 4;

/// `struct sctp_event`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Event {
    pub association: i32,
    pub kind: u16,
    pub on: u8,
}

/// `struct sctp_paddrparams`, which is packed: padding at its end only.
#[repr(C, packed)]
#[derive(Clone, Copy)]
pub(crate) struct PeerAddrParams {
    pub association: i32,
    pub address: libc::sockaddr_storage,
    pub heartbeat_interval_ms: u32,
    pub max_retransmissions: u16,
    pub mtu: u32,
    pub sack_delay_ms: u32,
    pub flags: u32,
    pub ipv6_flow_label: u32,
    pub dscp: u8,
    pub padding: u8,
}

/// `struct sctp_paddrthlds`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct PeerAddrThresholds {
    pub association: i32,
    pub address: libc::sockaddr_storage,
    pub max_retransmissions: u16,
    pub potentially_failed: u16,
}

/// `struct sctp_paddrinfo`.
#[repr(C, packed(4))]
#[derive(Clone, Copy)]
pub(crate) struct PeerAddrInfo {
    pub association: i32,
    pub address: libc::sockaddr_storage,
    pub state: i32,
    pub congestion_window_bytes: u32,
    /// Smoothed round-trip time in ticks of the kernel, although RFC 6458 §8.2.2 has milliseconds.
    pub smoothed_rtt_ticks: u32,
    pub rto_ms: u32,
    pub mtu: u32,
}

/// `struct sctp_status`.
#[repr(C, packed(4))]
#[derive(Clone, Copy)]
pub(crate) struct Status {
    pub association: i32,
    pub state: i32,
    pub peer_window: u32,
    /// DATA chunks sent and not acknowledged.
    pub unacknowledged: u16,
    /// DATA chunks received and not delivered.
    pub pending: u16,
    pub in_streams: u16,
    pub out_streams: u16,
    /// Maximum user data of one DATA chunk, in bytes.
    pub fragmentation_point: u32,
    pub primary: PeerAddrInfo,
}

/// `struct sctp_assoc_stats`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct AssocStats {
    pub association: i32,
    pub max_rto_address: libc::sockaddr_storage,
    /// Maximum retransmission time-out since the last call, in milliseconds.
    pub max_rto_ms: u64,
    pub sacks_received: u64,
    pub sacks_sent: u64,
    pub packets_sent: u64,
    pub packets_received: u64,
    pub retransmitted_chunks: u64,
    pub out_of_sequence_tsns: u64,
    pub duplicate_chunks: u64,
    pub gap_acks_received: u64,
    pub unordered_chunks_sent: u64,
    pub unordered_chunks_received: u64,
    pub ordered_chunks_sent: u64,
    pub ordered_chunks_received: u64,
    pub control_chunks_sent: u64,
    pub control_chunks_received: u64,
}

/// `struct sctp_getaddrs` with room for addresses, which are packed one after another, each as long
/// as its own family's structure.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct GetAddrs {
    pub association: i32,
    pub count: u32,
    pub addresses: [u8; 1024],
}

// The sizes of the header of Linux, with its own compiler.
const _: () = {
    assert!(size_of::<RtoInfo>() == 16);
    assert!(size_of::<AssocParams>() == 20);
    assert!(size_of::<SackInfo>() == 12);
    assert!(size_of::<AssocValue>() == 8);
    assert!(size_of::<Event>() == 8);
    assert!(size_of::<PeerAddrParams>() == 156);
    assert!(size_of::<PeerAddrThresholds>() == 144);
    assert!(size_of::<PeerAddrInfo>() == 152);
    assert!(size_of::<Status>() == 176);
    assert!(size_of::<AssocStats>() == 256);
};
