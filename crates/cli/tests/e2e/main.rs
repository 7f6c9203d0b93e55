//! Tests of the real binary over real namespaces, with small studies.
//!
//! Tests run at once on a busy machine, and none of them measures the exactness of this machine's
//! time. Tests that compare exact results are in `guests`, in virtual time.

mod bundle;
mod capture;
mod claims;
mod command_line;
mod compare;
mod cut_log;
mod damaged_shards;
mod dry_run;
mod export;
mod faults;
mod guests;
mod happy;
mod help;
mod hosts;
mod hung;
mod input;
mod iperf3_lines;
mod kills;
mod large;
mod live;
mod machine;
mod mptcp;
mod path_command;
mod real_time;
mod resume;
mod server;
mod shards;
mod sweeps;
mod typeset;
mod wdt;
