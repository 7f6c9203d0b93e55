//! Claims of study files: the cells that they choose, and mistakes.

use regatta_model::{
    Study,
    study::{ClaimedCell, Relation},
};

const STUDY: &str = r#"
[[transport]]
driver = "tcp"
[[transport]]
driver = "udp"
[[transport]]
driver = "quic-quinn"

[[condition]]
name = "wan"
[[condition]]
name = "lan"

[[workload]]
kind = "bulk"
name = "stream"
[[workload]]
kind = "stop-and-wait"
name = "wait"
[[workload]]
kind = "request-response"
name = "ask"

[[sweep]]
key = "condition.loss"
of = ["wan"]
values = ["0%", "1%", "5%"]

[[sweep]]
key = "workload.message"
of = ["stream", "wait"]
values = ["1kB", "10kB"]
"#;

fn read(keys: &str) -> Relation {
    let text = format!("{STUDY}[[claim]]\ntext = \"it is so\"\n{keys}");
    let mut study = Study::parse(&text, "study.toml").unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(study.claims.len(), 1);
    study.claims.remove(0).relation
}

fn message(keys: &str) -> String {
    let text = format!("{STUDY}[[claim]]\ntext = \"it is so\"\n{keys}");
    match Study::parse(&text, "study.toml") {
        Ok(study) => panic!("was read: {:?}", study.claims),
        Err(error) => error.to_string(),
    }
}

fn cell(names: &str) -> ClaimedCell {
    let names: Vec<&str> = names.split('|').collect();
    [names[0], names[1], names[2]].map(str::to_owned)
}

#[test]
fn a_name_of_the_file_stands_for_all_that_sweeps_made_of_it() {
    let found = read(
        "condition = 'wan'\nwhere = {'condition.loss' = '1%..'}\nworkload = 'stream, message 1 kB'\n\
         order = ['udp', ['tcp', 'quic-quinn']]",
    );
    let Relation::Order { places } = found else {
        panic!("{found:?}");
    };
    let of = |condition: &str| {
        let cell = |label: &str| cell(&format!("{label}|{condition}|stream, message 1 kB"));
        vec![vec![cell("udp")], vec![cell("tcp"), cell("quic-quinn")]]
    };
    assert_eq!(places, [of("wan, 1 % loss"), of("wan, 5 % loss")]);
}

#[test]
fn a_claim_may_have_a_note() {
    let keys = "note = 'buffers decide'\nnot_seen = 'a judgement'";
    let text = format!("{STUDY}[[claim]]\ntext = \"it is so\"\n{keys}");
    let study = Study::parse(&text, "study.toml").unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(study.claims[0].note.as_deref(), Some("buffers decide"));
}

#[test]
fn sides_are_matched_by_their_swept_values() {
    let found = read(
        "transport = 'udp'\ncondition = 'lan'\nmetric = 'goodput_bps'\n\
         ratio = {of = {workload = 'wait'}, to = {workload = 'stream'}, at_most = 0.5}",
    );
    let Relation::Ratio { places, bounds } = found else {
        panic!("{found:?}");
    };
    let of = |message: &str| {
        ["wait", "stream"].map(|it| cell(&format!("udp|lan|{it}, message {message}")))
    };
    assert_eq!(places, [of("1 kB"), of("10 kB")]);
    assert_eq!(bounds.ends(), [f64::NEG_INFINITY, 0.5]);
}

/// The better cell of each pair is the first: before 1 % `past`, from 5 % on `of`.
#[test]
fn a_crossing_is_an_order_before_and_after() {
    let found = read(
        "workload = 'stream, message 1 kB'\n\
         crossing = {of = 'udp', past = 'tcp', over = 'condition.loss', from = '0%', to = '5%'}",
    );
    let Relation::Crossing { places } = found else {
        panic!("{found:?}");
    };
    let cell =
        |label: &str, loss: &str| cell(&format!("{label}|wan, {loss} % loss|stream, message 1 kB"));
    let expected = [
        [cell("tcp", "0"), cell("udp", "0")],
        [cell("udp", "5"), cell("tcp", "5")],
    ];
    assert_eq!(places, expected);
}

#[test]
fn a_trend_has_a_line_for_each_combination_of_the_other_values() {
    let found = read(
        "transport = 'tcp'\nworkload = 'stream'\ntrend = {is = 'falls', over = 'condition.loss'}",
    );
    let Relation::Trend { lines, .. } = found else {
        panic!("{found:?}");
    };
    let lines = lines
        .iter()
        .map(|line| line.of.iter().map(|cell| cell[1].as_str()).collect());
    let lines: Vec<Vec<&str>> = lines.collect();
    let losses = ["wan, 0 % loss", "wan, 1 % loss", "wan, 5 % loss"];
    assert_eq!(lines, [losses, losses]);
}

#[test]
fn the_first_is_compared_with_the_other_transports() {
    let found = read("condition = 'lan'\nworkload = 'stream, message 1 kB'\nlast = 'udp'");
    let Relation::Order { places } = found else {
        panic!("{found:?}");
    };
    let cell = |label: &str| cell(&format!("{label}|lan|stream, message 1 kB"));
    let others = vec![cell("tcp"), cell("quic-quinn")];
    assert_eq!(places, [[others, vec![cell("udp")]]]);
}

/// A study is stored with the run, from which its reports are made.
#[test]
fn claims_are_stored_with_the_study() {
    let claims = "[[claim]]\ntext = \"a\"\nplace = \"table 1\"\ntransport = 'udp'\nmetric = 'message_loss_ratio'\n\
                  in_most = true\nvalue = {at_least = '1%', every_trial = true}\n\
                  [[claim]]\ntext = \"b\"\nnot_seen = 'a judgement'\n";
    let study = Study::parse(&format!("{STUDY}{claims}"), "study.toml").expect("a sound study");
    let json = serde_json::to_string(&study).expect("JSON");
    let again: Study = serde_json::from_str(&json).expect("a study");
    assert_eq!(again.claims, study.claims);
    assert_eq!(again.claims.len(), 2);
    assert!(again.claims[0].in_most);
}

#[test]
fn a_mistake_is_shown_at_its_line() {
    let text = message("workload = 'stream'\norder = ['udp', 'tpc']");
    let expected = "\
error: this study has no transport `tpc`
  --> study.toml:36:17
   |
36 | order = ['udp', 'tpc']
   |                 ^^^^^
   |
hint: did you mean `tcp`?";
    assert_eq!(text, expected);
}

macro_rules! mistakes {
    ($($name:ident: $keys:literal => $message:literal, $hint:literal;)+) => {$(
        #[test]
        fn $name() {
            let text = message($keys);
            assert!(text.contains(concat!("error: ", $message)), "{text}");
            assert!(text.contains(concat!("hint: ", $hint)), "{text}");
        }
    )+};
}

mistakes! {
    an_unknown_condition: "condition = 'wann'\nlast = 'udp'" => "this study has no condition `wann`", "did you mean `wan`?";
    an_unknown_workload: "workload = 'streams'\nlast = 'udp'" => "this study has no workload `streams`", "did you mean `stream`?";
    an_unknown_metric: "metric = 'goodput'\nlast = 'udp'" => "unknown metric `goodput`", "did you mean `goodput_bps`?";
    an_unknown_swept_key: "where = {'condition.los' = '1%'}\nlast = 'udp'" => "no `[[sweep]]` of this study is of `condition.los`", "did you mean `condition.loss`?";
    an_unknown_swept_value: "where = {'condition.loss' = '3%'}\nlast = 'udp'" => "no value of `condition.loss` is `3%`", "its values are: 0 %, 1 %, 5 %";
    most_places_of_what_is_not_seen: "in_most = true\nnot_seen = 'a judgement'" => "unknown key `in_most`", "";
    no_relation: "condition = 'lan'" => "this claim has no relation", "write one of `order`";
    two_relations: "first = 'udp'\nlast = 'tcp'" => "a claim has one relation, and this one has `first` and `last`", "write a second `[[claim]]`";
    different_rankings: "order = ['udp', 'tcp']" => "the workloads of this claim are ranked by different metrics", "name one";
    no_bound: "workload = 'stream'\nratio = {of = 'udp', to = 'tcp'}" => "this relation has no bound", "write `at_least = 2`";
    a_bound_without_a_unit: "workload = 'stream'\nvalue = {at_least = 5}" => "`at_least` in `value` is a text with a unit", "write `at_least = \"5Mbit/s\"`";
    exchanged_bounds: "workload = 'stream'\nratio = {of = 'udp', to = 'tcp', at_least = 3, at_most = 2}" => "nothing is within these bounds", "exchange the two";
    a_side_with_other_parts: "order = ['udp', {condition = 'lan'}]" => "this side names no transport", "write";
    a_part_chosen_twice: "transport = 'udp'\norder = ['udp', 'tcp']" => "the sides of this relation name their transport themselves", "leave out `transport`";
    a_parameter_of_one_value: "where = {'condition.loss' = '1%'}\ntrend = {is = 'falls', over = 'condition.loss'}" => "this claim chooses fewer than two values", "choose more";
    a_crossing_at_no_value: "workload = 'stream'\ncrossing = {of = 'udp', past = 'tcp', over = 'condition.loss', from = '2%', to = '5%'}" => "`2%` is no value of the parameter", "write one of: 0 %, 1 %";
    a_crossing_backwards: "workload = 'stream'\ncrossing = {of = 'udp', past = 'tcp', over = 'condition.loss', from = '5%', to = '1%'}" => "the crossing ends before it begins", "write a later value";
    an_unknown_key: "workload = 'stream'\nordre = ['udp', 'tcp']" => "this claim has no relation", "write one of";
    an_unknown_key_of_a_relation: "workload = 'stream'\nratio = {of = 'udp', too = 'tcp', at_least = 2}" => "`ratio` has no `to`", "add";
}

#[test]
fn a_claim_is_stated_once() {
    let claim = "[[claim]]\ntext = \"it is so\"\nnot_seen = \"a judgement\"\n";
    let error = Study::parse(&format!("{STUDY}{claim}{claim}"), "study.toml");
    let text = error.expect_err("a mistake").to_string();
    assert!(text.contains("this claim is in the study twice"), "{text}");
}
