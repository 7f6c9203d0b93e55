//! Passes on how far this crate, which the payload goes through, is optimised.

use std::env;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let level = env::var("OPT_LEVEL").unwrap_or_default();
    println!("cargo:rustc-env=REGATTA_OPT_LEVEL={level}");
}
