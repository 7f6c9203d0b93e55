//! Passes on the optimisation level of this crate, which the payload goes through.

use std::env;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let level = env::var("OPT_LEVEL").unwrap_or_default();
    println!("cargo:rustc-env=REGATTA_OPT_LEVEL={level}");
}
