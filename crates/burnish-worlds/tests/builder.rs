//! A model builds a world: broken proposals are rejected with the reason, the first good one is taken.
#![expect(clippy::unwrap_used, reason = "a test says what is right")]

use std::convert::Infallible;

use burnish_core::Message;
use burnish_worlds::builder::{Rejected, build};

const GOOD: &str = include_str!("small.toml");

/// Gives these answers one after the other; says which were rejected, for what, and what was told.
fn built(answers: &[String]) -> (Option<String>, Vec<Rejected>, Vec<Vec<Message>>) {
    let (mut rejected, mut told) = (Vec::new(), Vec::new());
    let mut next = answers.iter();
    let found = build(
        "a till",
        answers.len(),
        |conversation: &[Message]| {
            told.push(conversation.to_vec());
            Ok::<_, Infallible>(next.next().unwrap().clone())
        },
        |it| rejected.push(it.clone()),
    );
    (found.unwrap().map(|built| built.text), rejected, told)
}

fn fenced(text: &str) -> String {
    format!("Here it is.\n```toml\n{text}```\nDone.")
}

#[test]
fn broken_proposals_are_told_what_is_wrong_until_one_is_right() {
    let wrong_result = GOOD.replace("result = { balance = 15 }", "result = { balance = 16 }");
    let wrong_change = GOOD.replace("{ \"accounts.A1.balance\" = 15 }", "{ \"accounts.A1.balance\" = 17 }");
    let taken = GOOD.replace("\"deposit\"", "\"deposit_money\"");
    let answers = [
        "I can't do that.".to_owned(),
        fenced("name = 3"),
        fenced(&wrong_result),
        fenced(&wrong_change),
        fenced(&taken),
        fenced(GOOD),
    ];
    let (found, rejected, told) = built(&answers);
    assert_eq!(found.as_deref(), Some(GOOD));
    let first: Vec<&str> = rejected.iter().map(|it| it.problems[0].as_str()).collect();
    assert!(first[1].contains("invalid type: integer `3`"), "{}", first[1]);
    assert!(first[2].starts_with("results: `deposit`:"), "{}", first[2]);
    assert!(first[3].starts_with("transitions: `deposit`:"), "{}", first[3]);
    assert_eq!(first[4], "interface: `deposit_money`: the world `bank` has a tool of this name");
    assert_eq!(rejected.len(), 5);
    // Each is asked again with its own proposal and what was wrong with it, and the format.
    for (at, conversation) in told.iter().enumerate().skip(1) {
        assert_eq!(conversation.len(), 3);
        assert!(conversation[0].content.contains("a till"));
        assert_eq!(conversation[1].content, answers[at - 1]);
        assert!(conversation[2].content.contains(&rejected[at - 1].problems[0]));
    }
}

#[test]
fn it_gives_up_after_so_many_attempts_and_takes_bare_files() {
    let (found, rejected, _) = built(&["no".to_owned(), "never".to_owned()]);
    assert!(found.is_none());
    assert_eq!(rejected.len(), 2);
    assert_eq!(built(&[GOOD.to_owned()]).0.as_deref(), Some(GOOD));
}
