//! Prints what this machine can do and what is known of it.

fn main() {
    for capability in regatta_telemetry::capabilities() {
        println!("{capability:?}");
    }
    for (name, value) in regatta_telemetry::host_facts().0 {
        println!("{name} = {value}");
    }
}
