//! Messages of an error and its causes.

use std::error::Error;

/// Returns the messages of an error and of its causes, outermost first.
#[must_use]
pub fn causes(error: &dyn Error) -> Vec<String> {
    let mut causes = vec![error.to_string()];
    let mut cause = error.source();
    while let Some(inner) = cause {
        causes.push(inner.to_string());
        cause = inner.source();
    }
    causes
}
