//! Messages on the control stream: the receiver's offer before the transfer.

use bytes::Bytes;
use regatta_model::reason;

use super::LONGEST_OFFER;
use crate::{
    clock::MonotonicTime,
    error::{Result, TransportError},
    stream::{ByteStream, Received},
};

/// Sends the offer: its length (4 bytes, little-endian), then the text.
pub(super) async fn make_offer<S: ByteStream>(stream: &mut S, offer: &str) -> Result<()> {
    debug_assert!(offer.len() <= LONGEST_OFFER);
    let length = (offer.len() as u32).to_le_bytes();
    let text = Bytes::copy_from_slice(offer.as_bytes());
    stream.send_message(&length, &text).await?;
    stream.flush().await
}

/// Waits for the offer.
pub(super) async fn await_offer<S: ByteStream>(
    stream: &mut S,
    until: MonotonicTime,
) -> Result<String> {
    let begun = MonotonicTime::now();
    let mut bytes = Vec::new();
    let mut wanted = 4;
    let mut scratch = [0; 4096];
    loop {
        while bytes.len() < wanted {
            let missing = (wanted - bytes.len()).min(scratch.len());
            let mut take = |piece: &[u8]| bytes.extend_from_slice(piece);
            let receiving = stream.receive(&mut scratch[..missing], until, &mut take);
            let flow = "control stream";
            match receiving.await? {
                Received::Bytes(_) => {}
                Received::Closed => return Err(TransportError::Closed { flow }),
                Received::TimedOut => {
                    let what = reason::offer_of_receiver();
                    return Err(TransportError::timed_out_since(what, begun));
                }
            }
        }
        if wanted > 4 {
            break;
        }
        let length = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]) as usize;
        if length == 0 || length > LONGEST_OFFER {
            let what = reason::wrong_offer_length(length as u64);
            return Err(TransportError::protocol(what));
        }
        wanted = 4 + length;
    }
    String::from_utf8(bytes.split_off(4))
        .map_err(|_| TransportError::protocol(reason::offer_not_text()))
}
