//! quick
use regatta_bed::{Bed, Host};
use regatta_model::*;
use std::io::{BufRead, BufReader, Write};
use std::time::Duration;
fn main() {
    let exe = std::path::PathBuf::from(std::env::args().nth(1).unwrap());
    let secs = std::env::args().nth(2).unwrap_or("5".into());
    let cc = std::env::args().nth(3).unwrap_or("cubic".into());
    let rate: u64 = std::env::args().nth(4).map_or(1000, |s| s.parse().unwrap());
    let mut bed = Bed::up(BedKind::Netns, PathKind::Emulator, &exe, "x").unwrap();
    let link = Link {
        delay: Duration::from_millis(15),
        rate: (rate > 0).then_some(BitRate(rate * 1_000_000)),
        ..Link::default()
    };
    let c = Condition {
        name: "g".into(),
        forward: link.clone(),
        reverse: link,
        mtu_bytes: 1500,
    };
    bed.set_condition(&c, 1).unwrap();
    let mut a = bed.spawn_agent(Host::A).unwrap();
    let mut b = bed.spawn_agent(Host::B).unwrap();
    let mut ao = BufReader::new(a.stdout.take().unwrap());
    let mut bo = BufReader::new(b.stdout.take().unwrap());
    let mut l = String::new();
    writeln!(b.stdin.as_mut().unwrap(), "listen").unwrap();
    bo.read_line(&mut l).unwrap();
    let port = l.trim().rsplit(' ').next().unwrap().to_owned();
    writeln!(
        a.stdin.as_mut().unwrap(),
        "send {}:{port} {secs} {cc}",
        bed.address(Host::B)
    )
    .unwrap();
    l.clear();
    ao.read_line(&mut l).unwrap();
    print!("{l}");
    l.clear();
    bo.read_line(&mut l).unwrap();
    print!("{l}");
    let w: Vec<f64> = l
        .split_whitespace()
        .skip(1)
        .map(|x| x.parse().unwrap())
        .collect();
    println!("{:.1} Mbit/s", w[0] * 8e3 / w[1]);
    println!("{:#?}", bed.counters().unwrap());
}
