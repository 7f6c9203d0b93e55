//! Builds the library that is preloaded into a guest's kernel; see `src/guest/ptrace.c`.

use std::{env, path::PathBuf};

fn main() {
    const SOURCE: &str = "src/guest/ptrace.c";
    println!("cargo:rerun-if-changed={SOURCE}");
    let library = PathBuf::from(env::var_os("OUT_DIR").expect("a directory")).join("ptrace.so");
    let is_x86_64 = env::var("CARGO_CFG_TARGET_ARCH").is_ok_and(|arch| arch == "x86_64");
    if !is_x86_64 {
        // Nothing to add there; the program includes the file in any case.
        std::fs::write(library, []).expect("an empty file");
        return;
    }
    // The compiler without the flags of the target: the library is loaded into another program, also where Regatta
    // itself is linked statically.
    let compiler = cc::Build::new().get_compiler();
    let status = std::process::Command::new(compiler.path())
        .args(["-O2", "-shared", "-fPIC", "-Wall", "-Wextra", SOURCE, "-o"])
        .arg(library)
        .status()
        .expect("a C compiler");
    assert!(status.success(), "`{SOURCE}` does not compile");
}
