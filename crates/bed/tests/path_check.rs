//! The path's check of itself, in real namespaces.

mod common;

use std::time::Instant;

use common::{bed, condition, quantity};

#[test]
fn t() {
    let mut bed = bed();
    for c in [
        condition(30, 100, 0.0),
        condition(30, 100, 0.05),
        condition(30, 1000, 0.0),
        condition(80, 0, 0.01),
        condition(2000, 0, 1.0),
    ] {
        let s = Instant::now();
        let check = bed.check_path(&c).unwrap();
        println!("{:?}", s.elapsed());
        for q in &check.quantities {
            println!("{q:?}");
        }
        println!("{:?}", bed.counters().unwrap());
    }
    let _ = quantity;
}
