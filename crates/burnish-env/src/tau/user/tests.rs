//! The rule's user, sentence by sentence.

use super::*;
use proptest::prelude::*;

fn second() -> Brief {
    let some = |text: &str| Some(text.to_owned());
    Brief {
        persona: None,
        reason: some("You received your order #W2378156 and wish to exchange the keyboard. You also want a lamp with USB power."),
        known: some("You are Yusuf Rossi in zip code 19122."),
        unknown: some("You do not remember your email address."),
        instructions: "You are impatient.\nIf the agent says the keyboard is not available, you'd go for no backlight. Do not mention \
            this first. Tell the agent that you're a Gold member."
            .to_owned(),
    }
}

#[test]
fn a_user_says_what_it_is_asked_for_and_then_its_next_request() {
    let mut user = RuleUser::new(&second());
    assert_eq!(user.opening(), "I received my order #W2378156 and wish to exchange the keyboard.");
    for (said, answer) in [
        ("May I have your email?", "I do not remember my email address."),
        ("Then your name or zip code, please?", "I am Yusuf Rossi in zip code 19122."),
        (
            "Which order is it? Please provide the order number.",
            "I received my order #W2378156 and wish to exchange the keyboard.",
        ),
        ("What is your date of birth?", "I don't know the date of birth."),
        ("Is it raining?", "I don't know."),
        ("The keyboard is not available.", "I'd go for no backlight."),
        ("Shall I proceed with this exchange (yes/no)?", "Yes."),
        ("It is exchanged. Is there anything else?", "I also want a lamp with USB power."),
        ("That is done.", "I'm a Gold member."),
        ("Thank you.", "No, that is all. ###STOP###"),
    ] {
        assert_eq!(user.reply(said), answer, "{said}");
    }
}

#[test]
fn an_instruction_of_the_first_version_is_taken_apart() {
    let instructions = "You are omar_davis_3817, you just faced some money issue and want to downgrade all business flights to economy. \
        You are fine with refunding to original payment for each reservation. You want to know how much money you have saved in total. \
        You are reactive to the agent.";
    let mut user = RuleUser::new(&Brief { instructions: instructions.to_owned(), ..Brief::default() });
    let first = "I just faced some money issue and want to downgrade all business flights to economy.";
    assert_eq!(user.opening(), first);
    assert_eq!(user.reply("What is your user id?"), "I am omar_davis_3817.");
    assert_eq!(
        user.reply("Where should the refund go? To the original payment method?"),
        "I am fine with refunding to original payment for each reservation."
    );
    assert_eq!(user.reply("Which cabin, economy?"), first);
    assert_eq!(user.reply("That is done."), "I want to know how much money I have saved in total.");
    assert_eq!(user.reply("YOU ARE BEING TRANSFERRED TO A HUMAN AGENT. PLEASE HOLD ON."), STOP);
}

#[test]
fn what_is_to_be_said_in_some_case_is_said_then_and_secrets_never() {
    let reason = "You want to exchange the bottle and the lamp. (It is just for a cat, but do not reveal it to the agent). If the agent asks \
        for confirmation, only exchange the lamp. When the agent offers a refund, don't mention it.";
    let mut user = RuleUser::new(&Brief { reason: Some(reason.to_owned()), ..Brief::default() });
    assert_eq!(user.opening(), "I want to exchange the bottle and the lamp.");
    assert_eq!(user.reply("Which payment method should I use?"), "I don't know the payment method.");
    assert_eq!(user.reply("I exchange both. Do you want me to proceed?"), "Only exchange the lamp.");
    assert_eq!(user.reply("The lamp only. Do you want me to proceed?"), "Yes.");
    assert_eq!(user.reply("What is it for, a cat or a dog?"), "I don't know.");
    assert_eq!(user.reply("I offer a refund."), "No, that is all. ###STOP###");
}

#[test]
fn the_brief_has_every_part_and_the_conversation() {
    let heard = [("Your zip?".to_owned(), "19122".to_owned())];
    let messages = user_reads(&second(), &heard, "And your name?");
    let said: Vec<&str> = messages[1..].iter().map(|message| message.content.as_str()).collect();
    assert_eq!(said, ["Hi! How can I help you today?", HELLO, "Your zip?", "19122", "And your name?"]);
    for part in ["zip code 19122", "#W2378156", "email address", "Gold member", STOP] {
        assert!(messages[0].content.contains(part), "{part}");
    }
}

#[test]
fn any_of_the_signs_ends_a_conversation() {
    assert_eq!(before_stop("Thanks! ###STOP###"), Some("Thanks!"));
    assert_eq!(before_stop("###TRANSFER###"), Some(""));
    assert_eq!(before_stop("I do not stop."), None);
}

/// What a user may say beside sentences of its instruction.
fn stock(sentence: &str) -> bool {
    let own = [Phrase::YES, Phrase::DONE, Phrase::DONT_KNOW, HELLO, STOP];
    own.contains(&sentence)
        || (sentence.starts_with("I don't know the ") && FACTS.iter().any(|it| sentence.contains(it.name)))
}

proptest! {
    #[test]
    fn a_user_never_invents_and_always_comes_to_an_end(
        said in proptest::collection::vec(
            prop_oneof![
                "[a-z ]{0,40}\\??",
                proptest::sample::select(vec![
                    "What is your email, name, zip code and order number?",
                    "Could you confirm the address, payment method and reason?",
                    "Done.",
                    "The keyboard is not available",
                    "Anything else?",
                ]).prop_map(str::to_owned),
            ],
            0..12,
        )
    ) {
        let mut user = RuleUser::new(&second());
        let lines: Vec<String> = user.lines.iter().map(|line| line.text.clone()).collect();
        user.opening();
        for said in said {
            let mut answer = user.reply(&said);
            for line in &lines {
                answer = answer.replace(line, "");
            }
            for sentence in sentences(&answer) {
                prop_assert!(stock(&sentence), "{sentence}");
            }
        }
        let ends = (0..=lines.len()).find(|_| user.reply("It is done.").contains(STOP));
        prop_assert!(ends.is_some());
    }
}
