//! Example of the README, which is that of `examples/`.

#[path = "../../examples/loopback.rs"]
mod loopback;

#[test]
fn example_runs() {
    loopback::main().expect("it runs");
}

#[test]
fn readme_has_the_example() {
    let readme = include_str!("../../README.md");
    let (_, code) = readme.split_once("```rust\n").expect("an example");
    let (code, _) = code.split_once("```").expect("its end");
    let example = include_str!("../../examples/loopback.rs");
    let (_, example) = example.split_once("\n\n").expect("a description");
    assert_eq!(code, example.replace("pub(crate) fn main", "fn main"));
}
