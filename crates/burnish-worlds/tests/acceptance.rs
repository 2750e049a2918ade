//! The worlds that come with burnish pass the acceptance tests, and broken ones don't.
#![expect(clippy::unwrap_used, reason = "a test says what is right")]

mod common;

use std::collections::BTreeSet;

use burnish_worlds::accept::{Check, complaints};
use burnish_worlds::graph::{Graph, LIKENESS};
use burnish_worlds::{World, builtin, builtin_names};
use common::all;

#[test]
fn every_world_in_the_folder_is_accepted() {
    let mut wrong = String::new();
    for world in all() {
        for complaint in complaints(&world) {
            wrong += &format!("{}: {complaint}\n", world.name);
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// What `docs/environments/worlds.md` says of them.
#[test]
fn eight_worlds_come_along_with_ten_tools_each_of_which_fifty_change_the_state() {
    let worlds: Vec<World> = builtin_names().map(|name| builtin(name).unwrap().unwrap()).collect();
    let in_folder: Vec<String> = all().into_iter().map(|world| world.name).collect();
    assert_eq!(builtin_names().collect::<Vec<_>>(), in_folder);
    assert_eq!(worlds.iter().map(|world| world.name.as_str()).collect::<Vec<_>>(), in_folder);
    assert_eq!(worlds.iter().map(|world| world.tools.len()).collect::<Vec<_>>(), [10; 8]);

    let mut count = 0;
    for world in &worlds {
        for tool in &world.tools {
            // Those that can change the state do so in a test of their own.
            let changes = world.tests.iter().filter(|test| test.tool == tool.name).any(|test| {
                let mut state = world.fixture.clone();
                tool.call(world, &mut state, &test.arguments).is_ok() && state != world.fixture
            });
            assert_eq!(tool.changes(), changes, "{}", tool.name);
            count += usize::from(changes);
        }
    }
    assert_eq!(count, 50);
}

#[test]
fn tools_have_names_of_their_own_and_internal_parameters_can_be_had() {
    let worlds = all();
    let graph = Graph::new(&worlds, LIKENESS);
    let names: BTreeSet<&str> = graph.nodes().iter().map(|node| node.tool.name.as_str()).collect();
    assert_eq!(names.len(), graph.nodes().len());
    for (at, node) in graph.nodes().iter().enumerate() {
        for (parameter, it) in node.tool.parameters.iter().enumerate() {
            let is_had =
                it.source != burnish_worlds::Source::Internal || !graph.producers(at, parameter).is_empty();
            assert!(is_had, "no tool gives `{}` of `{}`", it.name, node.tool.name);
        }
    }
}

#[test]
fn the_example_that_explains_the_format_is_accepted() {
    let text = include_str!("../FORMAT.md").split("```toml").nth(1).unwrap().split("```").next().unwrap();
    assert_eq!(complaints(&World::parse(text).unwrap()), []);
}

/// A world with one thing changed, and which acceptance tests it then fails.
fn broken(from: &str, to: &str) -> BTreeSet<Check> {
    let text = include_str!("small.toml");
    assert_eq!(text.matches(from).count(), 1, "{from}");
    let world = World::parse(&text.replace(from, to)).unwrap();
    complaints(&world).into_iter().map(|complaint| complaint.check).collect()
}

#[test]
fn each_acceptance_test_finds_what_it_is_for() {
    let world = World::parse(include_str!("small.toml")).unwrap();
    assert_eq!(complaints(&world), []);

    let only = |check| BTreeSet::from([check]);
    // A parameter that nothing reads; words that leave one out; a tool without a test that fails.
    let draw = "about = \"How much\", draw = [1, 50] }";
    let note = "note = { type = \"string\", about = \"A note\", draw = [\"a\"], optional = true }";
    assert_eq!(broken(draw, &format!("{draw}\n{note}")), only(Check::Interface));
    assert_eq!(
        broken("error = \"nobody has an account of this name\"", "result = { account_id = \"A1\" }"),
        { BTreeSet::from([Check::Interface, Check::Results]) }
    );
    // An identifier that nothing returns.
    assert_eq!(broken("account_id = { value", "number_of_it = { value"), {
        BTreeSet::from([Check::Interface, Check::Results])
    });
    // More than the type of the column allows, which the tool does not foresee.
    assert_eq!(
        broken(
            "balance = { type = \"integer\", draw = [0, 100] }",
            "balance = { type = \"integer\", draw = [0, 100], max = 120 }"
        ),
        { only(Check::Executes) }
    );
    // A result that is wrong, with the right change.
    assert_eq!(
        broken("value = \"account.balance\"", "value = \"account.balance + 1\""),
        only(Check::Results)
    );
    // A change that is wrong, with the right result; and one too many.
    assert_eq!(
        broken("changed = { \"accounts.A1.balance\" = 15 }", "changed = { \"accounts.A1.balance\" = 16 }"),
        { only(Check::Transitions) }
    );
    assert_eq!(
        broken(
            "{ set = \"account.balance\", to = \"account.balance + $amount\" },",
            "{ set = \"account.balance\", to = \"account.balance + $amount\" }, { set = \"account.owner\", to = \"'Eve'\" },"
        ),
        { only(Check::Transitions) }
    );
}

#[test]
fn a_row_that_is_deleted_unasked_is_noticed() {
    let find = "otherwise = \"nobody has an account of this name\" },";
    assert_eq!(
        broken(find, &format!("{find} {{ delete = \"account\" }},")),
        BTreeSet::from([Check::Transitions])
    );
}

#[test]
fn what_makes_no_sense_is_refused_when_it_is_read() {
    let text = include_str!("small.toml");
    for (from, to, said) in [
        ("owner == $owner", "owner == $name", "tool `find_till`: step 1: there is no parameter `name`"),
        (
            "owner == $owner",
            "town == $owner",
            "tool `find_till`: step 1: there is no column and no number `town` here",
        ),
        ("owner == $owner", "balance == $owner", "tool `find_till`: step 1: `==` between integer and string"),
        (
            "\"account.balance + $amount\"",
            "\"'much'\"",
            "tool `deposit`: step 2: `'much'` is of type string, not integer",
        ),
        (
            "otherwise = \"nobody has an account of this name\"",
            "to = \"1\"",
            "tool `find_till`: step 1: `to` has no meaning beside `find`",
        ),
        (
            "A1 = { owner = \"Ann\", balance = 10 }",
            "A1 = { owner = \"Ann\" }",
            "fixture: `accounts.A1.balance` has no value",
        ),
        (
            "A1 = { owner = \"Ann\", balance = 10 }",
            "X = { owner = \"Ann\", balance = 10 }",
            "fixture: `accounts.X`: keys of `accounts` are `A`",
        ),
        ("tool = \"deposit\"\n", "tool = \"deposits\"\n", "there is no such tool"),
        (
            "from = \"accounts.owner\"",
            "from = \"accounts.name\"",
            "`from` names `accounts.name`, which is no column",
        ),
        (
            "{ set = \"account.balance\"",
            "{ count = \"accounts\", as = \"owner\" }, { set = \"account.balance\"",
            "tool `deposit`: step 2: `owner` is the name of a column, or taken",
        ),
        ("prefix = \"A\"", "prefix = \"A1\"", "table `accounts`: `prefix` is `A1`"),
        ("rows = [2, 3]", "rows = [3, 2]", "table `accounts`: `rows` is [3, 2]"),
        ("about = \"A till.\"", "abuot = \"A till.\"", "unknown field `abuot`"),
    ] {
        assert!(text.contains(from), "{from}");
        let error = World::parse(&text.replacen(from, to, 1)).unwrap_err().to_string();
        assert!(error.contains(said), "{to}: {error}");
    }
}

#[test]
fn a_call_that_fails_half_way_changes_nothing() {
    let set = "{ set = \"account.balance\", to = \"account.balance + $amount\" },";
    let later = "{ check = \"account.balance < 100\", otherwise = \"too much\" },";
    let with = |more: &str| {
        let text = include_str!("small.toml");
        assert!(text.contains(set));
        World::parse(&text.replace(set, &format!("{set} {more}"))).unwrap()
    };
    let arguments = serde_json::json!({ "account_id": "A1", "amount": 95 });
    let bounded = include_str!("small.toml").replace("draw = [0, 100] }", "draw = [0, 100], max = 100 }");
    for (world, said) in [
        // Refused by a step behind the change, and by the type of the column.
        (with(later), "too much"),
        (World::parse(&bounded).unwrap(), "`accounts.A1.balance` would be 105, above 100"),
        (
            with("{ set = \"account.balance\", to = \"account.balance * 9223372036854775807\" },"),
            "a number is too large",
        ),
    ] {
        let mut state = world.fixture.clone();
        let failure = world.tool("deposit").unwrap().call(&world, &mut state, arguments.as_object().unwrap());
        assert_eq!(failure.unwrap_err().text(), said);
        assert_eq!(state, world.fixture);
    }
    let mut state = with("").fixture;
    with("").tool("deposit").unwrap().call(&with(""), &mut state, arguments.as_object().unwrap()).unwrap();
    assert_ne!(state, with("").fixture);
}
