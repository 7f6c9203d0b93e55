//! The real binary over real namespaces, with small studies.
//!
//! Tests run at once on a busy machine, and none of these measures how exact this machine's time is.
//! What compares results to the digit is in `guests`, in virtual time.

mod behind;
mod capture;
mod dry_run;
mod faults;
mod guests;
mod happy;
mod help;
mod hung;
mod input;
mod kills;
mod machine;
mod mptcp;
mod real_time;
mod resume;
mod wdt;
