//! Congestion controllers of s2n-quic as one type.
//!
//! The stack is generic over its controller: with two types of controllers all of it would be compiled twice.

use std::any::type_name;

use s2n_quic::provider::congestion_controller::{
    Bbr, CongestionController, Cubic, Endpoint, PathInfo, Publisher, RandomGenerator, RttEstimator,
    Timestamp, bbr, cubic,
};

use crate::options::CongestionControl;

type CubicController = <Cubic as Endpoint>::CongestionController;
type BbrController = <Bbr as Endpoint>::CongestionController;
type BbrPacket = <BbrController as CongestionController>::PacketInfo;

/// Source of the controllers of an endpoint, one for each path.
#[derive(Debug)]
pub(crate) enum Controllers {
    /// RFC 9438.
    Cubic(Cubic),
    /// BBR version 2.
    Bbr(Bbr),
}

impl Controllers {
    /// Creates a source of controllers. `initial_window` is in bytes.
    pub(crate) fn new(kind: CongestionControl, initial_window: u32) -> Self {
        match kind {
            CongestionControl::Cubic => {
                let cubic = cubic::Builder::default();
                Self::Cubic(cubic.with_initial_congestion_window(initial_window).build())
            }
            CongestionControl::Bbr => {
                let bbr = bbr::Builder::default();
                Self::Bbr(bbr.with_initial_congestion_window(initial_window).build())
            }
        }
    }

    /// Returns the congestion control by the type of the controllers; `None` for an unknown type.
    pub(crate) fn congestion_control(&self) -> Option<CongestionControl> {
        CongestionControl::of_type(match self {
            Self::Cubic(_) => type_name::<CubicController>(),
            Self::Bbr(_) => type_name::<BbrController>(),
        })
    }
}

impl Endpoint for Controllers {
    type CongestionController = Controller;

    fn new_congestion_controller(&mut self, path: PathInfo) -> Controller {
        match self {
            Self::Cubic(cubic) => Controller::Cubic(cubic.new_congestion_controller(path)),
            Self::Bbr(bbr) => Controller::Bbr(bbr.new_congestion_controller(path)),
        }
    }
}

/// Controller of one path.
#[derive(Debug, Clone)]
#[expect(
    clippy::large_enum_variant,
    reason = "a connection has one, which is used for every packet"
)]
pub(crate) enum Controller {
    Cubic(CubicController),
    Bbr(BbrController),
}

/// State that a controller keeps for each packet in flight.
#[derive(Debug, Clone, Copy)]
pub(crate) enum PacketInfo {
    Cubic,
    Bbr(BbrPacket),
}

/// Calls a method of the controller, whichever it is.
macro_rules! of_either {
    ($controller:expr, $inner:ident => $call:expr) => {
        match $controller {
            Controller::Cubic($inner) => $call,
            Controller::Bbr($inner) => $call,
        }
    };
}

impl CongestionController for Controller {
    type PacketInfo = PacketInfo;

    fn congestion_window(&self) -> u32 {
        of_either!(self, inner => inner.congestion_window())
    }

    fn bytes_in_flight(&self) -> u32 {
        of_either!(self, inner => inner.bytes_in_flight())
    }

    fn is_congestion_limited(&self) -> bool {
        of_either!(self, inner => inner.is_congestion_limited())
    }

    fn requires_fast_retransmission(&self) -> bool {
        of_either!(self, inner => inner.requires_fast_retransmission())
    }

    fn on_packet_sent<P: Publisher>(
        &mut self,
        sent_at: Timestamp,
        bytes: usize,
        app_limited: Option<bool>,
        rtt: &RttEstimator,
        publisher: &mut P,
    ) -> PacketInfo {
        match self {
            Self::Cubic(inner) => {
                inner.on_packet_sent(sent_at, bytes, app_limited, rtt, publisher);
                PacketInfo::Cubic
            }
            Self::Bbr(inner) => {
                let packet = inner.on_packet_sent(sent_at, bytes, app_limited, rtt, publisher);
                PacketInfo::Bbr(packet)
            }
        }
    }

    fn on_rtt_update<P: Publisher>(
        &mut self,
        sent_at: Timestamp,
        now: Timestamp,
        rtt: &RttEstimator,
        publisher: &mut P,
    ) {
        of_either!(self, inner => inner.on_rtt_update(sent_at, now, rtt, publisher));
    }

    fn on_ack<P: Publisher>(
        &mut self,
        sent_at: Timestamp,
        bytes: usize,
        packet: PacketInfo,
        rtt: &RttEstimator,
        random: &mut dyn RandomGenerator,
        now: Timestamp,
        publisher: &mut P,
    ) {
        match (self, packet) {
            (Self::Cubic(inner), _) => {
                inner.on_ack(sent_at, bytes, (), rtt, random, now, publisher)
            }
            (Self::Bbr(inner), PacketInfo::Bbr(packet)) => {
                inner.on_ack(sent_at, bytes, packet, rtt, random, now, publisher);
            }
            (Self::Bbr(_), PacketInfo::Cubic) => unreachable!("a path keeps its controller"),
        }
    }

    fn on_packet_lost<P: Publisher>(
        &mut self,
        bytes: u32,
        packet: PacketInfo,
        persistent: bool,
        new_burst: bool,
        random: &mut dyn RandomGenerator,
        now: Timestamp,
        publisher: &mut P,
    ) {
        match (self, packet) {
            (Self::Cubic(inner), _) => {
                inner.on_packet_lost(bytes, (), persistent, new_burst, random, now, publisher);
            }
            (Self::Bbr(inner), PacketInfo::Bbr(packet)) => {
                inner.on_packet_lost(bytes, packet, persistent, new_burst, random, now, publisher);
            }
            (Self::Bbr(_), PacketInfo::Cubic) => unreachable!("a path keeps its controller"),
        }
    }

    fn on_explicit_congestion<P: Publisher>(
        &mut self,
        ce_count: u64,
        now: Timestamp,
        publisher: &mut P,
    ) {
        of_either!(self, inner => inner.on_explicit_congestion(ce_count, now, publisher));
    }

    fn on_mtu_update<P: Publisher>(&mut self, max_data_bytes: u16, publisher: &mut P) {
        of_either!(self, inner => inner.on_mtu_update(max_data_bytes, publisher));
    }

    fn on_packet_discarded<P: Publisher>(&mut self, bytes: usize, publisher: &mut P) {
        of_either!(self, inner => inner.on_packet_discarded(bytes, publisher));
    }

    fn earliest_departure_time(&self) -> Option<Timestamp> {
        of_either!(self, inner => inner.earliest_departure_time())
    }

    fn send_quantum(&self) -> Option<usize> {
        of_either!(self, inner => inner.send_quantum())
    }
}
