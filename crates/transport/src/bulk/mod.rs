//! The workload `bulk`: one flow of messages from the connecting end to the listening one, and in
//! [`lanes`] the transfers that differ from that.

pub(crate) mod lanes;
pub(crate) mod messages;
mod streams;

use crate::{content::plan::Plan, one_flow::Work};

impl Work for Plan {
    type Sent = ();

    fn size(&self) -> u64 {
        self.size
    }
}
