use burnish_core::knob::Harder;
use proptest::prelude::*;
use serde_json::json;

use super::*;

fn knob(key: &str, kind: KnobKind, min: f64, max: f64, menu: &[f64]) -> Knob {
    let of = if kind == KnobKind::Share { "sizes".to_owned() } else { String::new() };
    let (tasks, help) = (BTreeMap::new(), String::new());
    Knob { key: key.to_owned(), kind, of, min, max, menu: menu.to_vec(), harder: Harder::Up, tasks, help }
}

fn knobs_of_boards() -> Vec<Knob> {
    vec![
        knob("sizes.3.share", KnobKind::Share, 0.0, 1.0, &[0.0, 0.5, 1.0]),
        knob("sizes.4.share", KnobKind::Share, 0.0, 1.0, &[0.0, 0.5, 1.0]),
        knob("sizes.3.holes", KnobKind::Number, 0.0, 0.5, &[0.0, 0.25, 0.5]),
        knob("moves.max", KnobKind::Whole, 2.0, 9.0, &[2.0, 4.0, 9.0]),
    ]
}

fn config() -> Value {
    json!({
        "sizes": {"3": {"share": 0.75, "holes": 0.1}, "4": {"share": 0.25}},
        "moves": {"min": 1, "max": 4},
        "prompt": "short"
    })
}

fn revised(said: &str) -> Revision {
    revise(&config(), &knobs_of_boards(), &Proposal::read(said).unwrap())
}

#[test]
fn nothing_proposed_changes_no_bit() {
    let odd = json!({"sizes": {"3": {"share": 3.0, "holes": 0.1}, "4": {"share": 0.7}}, "moves": {"max": 4}});
    let revision = revise(&odd, &knobs_of_boards(), &Proposal::read(r#"{"config": {}}"#).unwrap());
    assert_eq!(revision, Revision { config: odd, changes: Vec::new(), rejected: Vec::new() });
}

#[test]
fn values_out_of_range_are_clamped_and_shares_scaled_and_all_of_it_is_on_record() {
    let said = r#"{"reason": "harder", "config": {"sizes": {"4": {"share": 0.5}, "3": {"holes": 7}}, "moves.max": 5.6}}"#;
    let revision = revised(said);
    let mut expected = config();
    expected["sizes"]["3"] = json!({"share": 0.6, "holes": 0.5});
    expected["sizes"]["4"]["share"] = json!(0.4);
    expected["moves"]["max"] = json!(6);
    assert_eq!(revision.config, expected);
    let told: Vec<_> = revision
        .changes
        .iter()
        .map(|change| (change.key.as_str(), change.asked, change.is, change.note.as_deref().unwrap_or("")))
        .collect();
    assert_eq!(
        told,
        [
            ("sizes.3.share", None, 0.6, ""),
            ("sizes.4.share", Some(0.5), 0.4, "scaled: shares sum to 1"),
            ("sizes.3.holes", Some(7.0), 0.5, "out of range: 0 to 0.5 are allowed"),
            ("moves.max", Some(5.6), 6.0, "rounded: a whole number is wanted"),
        ]
    );
    assert!(revision.rejected.is_empty());
}

#[test]
fn what_is_no_number_and_what_nobody_knows_is_rejected_by_name_and_the_rest_counts() {
    let said = r#"I think: {"sizes": 3}. {"config": {"sizes": {"3": {"holes": NaN, "share": -Infinity}, "9": {"share": 1}},
        "moves": {"max": "NaN, really"}, "prompt": "full", "sizes.4.share": 0.75}}"#;
    let revision = revised(said);
    let rejected: Vec<_> =
        revision.rejected.iter().map(|it| (it.key.as_str(), it.problem.as_str())).collect();
    let no_number = |said: &str| format!("{said:?} is no finite number");
    assert_eq!(
        rejected,
        [
            ("sizes.3.holes", no_number("NaN").as_str()),
            ("sizes.3.share", &no_number("-Infinity")),
            ("sizes.9.share", "no such key can be changed; did you mean `sizes.3.share`?"),
            ("moves.max", &no_number("NaN, really")),
            ("prompt", "no such key can be changed"),
        ]
    );
    assert_eq!(revision.config["sizes"]["4"]["share"], 0.5);
    assert_eq!(revision.config["moves"], config()["moves"]);
}

#[test]
fn shares_that_are_all_zero_stay_as_they_were() {
    let revision = revised(r#"{"config": {"sizes": {"3": {"share": 0}, "4": {"share": -2}}}}"#);
    assert_eq!(revision.config, config());
    assert_eq!(revision.rejected[0].key, "sizes");
    assert!(revision.changes.is_empty());
}

#[test]
fn the_last_object_with_a_configuration_counts_and_without_one_there_is_no_proposal() {
    let said = "First {\"config\": {\"moves.max\": 2}} or rather ```json\n{\"reason\": \"longer\", \"config\": \
                {\"moves\": {\"max\": 9}}}\n``` {that is all}";
    let proposal = Proposal::read(said).unwrap();
    assert_eq!(
        (proposal.reason.as_str(), revised(said).config["moves"]["max"].as_u64()),
        ("longer", Some(9))
    );
    for broken in ["", "{", "{\"config\": {\"moves.max\": 2}", "{\"config\": 3}", "[1]", "{{{\"config\""] {
        assert!(Proposal::read(broken).unwrap_err().contains("`config`"), "{broken}");
    }
    let long = format!("{}{{\"config\": {{\"moves.max\": 3}}}}", "é{".repeat(60_000));
    assert_eq!(revised(&long).config["moves"]["max"], 3);
}

#[test]
fn a_menu_is_gone_through_in_the_direction_of_what_is_harder() {
    let mut knob = knob("moves.max", KnobKind::Whole, 2.0, 9.0, &[2.0, 4.0, 9.0]);
    let moved = |knob: &Knob| [-9, -1, 0, 1, 9].map(|places| knob.moved(5.0, places));
    assert_eq!(moved(&knob), [2.0, 2.0, 4.0, 9.0, 9.0].map(Some));
    knob.harder = Harder::Down;
    assert_eq!(moved(&knob), [9.0, 9.0, 4.0, 2.0, 2.0].map(Some));
    knob.harder = Harder::Unknown;
    assert_eq!(knob.moved(5.0, 1), None);
}

#[test]
fn a_declaration_that_contradicts_itself_is_told() {
    let fine = knob("moves.max", KnobKind::Whole, 2.0, 9.0, &[2.0, 4.0]);
    assert_eq!(fine.problem(), None);
    for (change, problem) in [
        (Knob { key: String::new(), ..fine.clone() }, "no name"),
        (Knob { min: 10.0, ..fine.clone() }, "must not exceed"),
        (Knob { max: f64::NAN, ..fine.clone() }, "must not exceed"),
        (Knob { menu: vec![4.0, 2.0], ..fine.clone() }, "ascending"),
        (Knob { menu: Vec::new(), ..fine.clone() }, "at least one"),
        (Knob { menu: vec![11.0], ..fine.clone() }, "menu` has 11"),
        (Knob { menu: vec![2.5], ..fine.clone() }, "no whole number"),
        (Knob { kind: KnobKind::Share, min: -1.0, ..fine.clone() }, "below 0"),
    ] {
        assert!(change.problem().is_some_and(|told| told.contains(problem)), "{problem}");
    }
}

proptest! {
    #[test]
    fn reading_never_panics_and_what_is_revised_is_in_range(text in "(\\{|\\}|\"|config|:|,|NaN|[0-9]|moves|\\.max|\\\\| |é)*") {
        if let Ok(proposal) = Proposal::read(&text) {
            let revision = revise(&config(), &knobs_of_boards(), &proposal);
            for knob in knobs_of_boards() {
                prop_assert!((knob.min..=knob.max).contains(&knob.value(&revision.config).unwrap()));
            }
        }
    }

    #[test]
    fn shares_sum_to_one_whatever_is_asked_for(one in -1e3f64..1e3, other in proptest::option::of(-1e3f64..1e3)) {
        let mut values = vec![("sizes.3.share".to_owned(), json!(one))];
        values.extend(other.map(|other| ("sizes.4.share".to_owned(), json!(other))));
        let revision = revise(&config(), &knobs_of_boards(), &Proposal { reason: String::new(), values });
        let shares = ["3", "4"].map(|size| revision.config["sizes"][size]["share"].as_f64().unwrap());
        prop_assert!((shares[0] + shares[1] - 1.0).abs() < 1e-12 && shares[0] >= 0.0 && shares[1] >= 0.0);
    }
}
