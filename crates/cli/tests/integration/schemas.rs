//! Schemas of machine output against values that a run has only on a busy machine.

use regatta_model::{Warning, warning};
use serde_json::{Value, json};

/// Asserts that a warning fits the definition `warning` of a schema.
#[track_caller]
fn assert_fits(schema: &str, warning: &Warning) {
    let schema: Value = serde_json::from_str(schema).expect("the schema is JSON");
    let of_warning = json!({"$defs": schema["$defs"], "$ref": "#/$defs/warning"});
    let value = serde_json::to_value(warning).expect("a warning is JSON");
    let fits = jsonschema::validate(&of_warning, &value);
    assert!(fits.is_ok(), "{fits:?}");
}

#[test]
fn warnings_with_and_without_content_fit_the_events_of_run_and_client() {
    for schema in [
        include_str!("../../../../schemas/events.schema.json"),
        include_str!("../../../../schemas/client-events.schema.json"),
    ] {
        assert_fits(schema, &warning::probe_broken("it ended".into()));
        assert_fits(schema, &Warning::of_texts("a_code", "Message.", "Hint."));
    }
}
