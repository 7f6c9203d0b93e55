//! The workload `bulk`: one flow of messages from the connecting end to the listening one, and in
//! [`flows`] the transfers that differ from that.

pub(crate) mod flows;
pub(crate) mod messages;
mod streams;

use crate::{content::plan::Plan, one_flow::Work};

impl Work for Plan {
    type Sent = ();

    fn size(&self) -> u64 {
        self.size
    }
}
