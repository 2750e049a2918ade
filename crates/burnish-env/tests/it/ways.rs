//! Episodes that try several ways on from a point.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use burnish_core::{
    Contact, Ending, Episode, Message, Policy, PolicyError, Script, StopReason, Task, Told, Trace, Turn,
    TurnOutput, Validity,
};
use burnish_env::rollout::{POLICY, Partners, Playing, RolloutSpec, play_with, replay};
use burnish_env::{Bound, EnvError, Environment, Generator, TaskSet};
use burnish_episode::{Ask, Cast, ContactError, Handle, Position, Program, Simulated, Waited};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::episodes::{Till, calls, scripted, spawn, speaker, spec, task};

/// Plays turn by turn. At each position it first gives the environment something else, on a way of its own, and goes on there
/// as far as that way goes.
struct Strays {
    before: Option<Message>,
    after: Option<Message>,
}

impl Program for Strays {
    fn play<'a, 's: 'a>(
        &'a self,
        handle: &'a Handle,
        policy: &'a Arc<str>,
        opening: Box<dyn Position<'s> + 's>,
    ) -> Waited<'a, Result<Box<dyn Position<'s> + 's>, ContactError>> {
        Box::pin(async move {
            let agent = handle.agent(policy, Trace::new());
            let mut position = opening;
            while position.ending().is_none() {
                let ask = Ask {
                    messages: Arc::clone(position.messages()),
                    tools: Arc::clone(position.tools()),
                    prefix: Vec::new(),
                    sampling: Arc::clone(position.sampling()),
                    seed: 7,
                };
                let output = handle.sample(&agent, ask).await?;
                if let Some(astray) = &self.before {
                    stray(&mut position, handle, astray).await?;
                }
                let mut next = position.fork(handle);
                next.act(handle, output).await?;
                if let Some(astray) = &self.after {
                    stray(&mut position, handle, astray).await?;
                }
                position = next;
            }
            Ok(position)
        })
    }
}

async fn stray<'s>(
    position: &mut Box<dyn Position<'s> + 's>,
    handle: &Handle,
    said: &Message,
) -> Result<(), ContactError> {
    let mut way = position.fork(handle);
    for _ in 0..2 {
        if way.ending().is_none() {
            way.act(handle, TurnOutput::new(said.clone(), StopReason::EndToken)).await?;
        }
    }
    Ok(())
}

fn user() -> impl Policy {
    speaker(|turn: &Turn| {
        Message::assistant(match turn.messages.last().unwrap().content.as_str() {
            "size?" => "what?",
            "again" => "large",
            _ => "bye",
        })
    })
}

fn play_by(till: &Till, script: &[Message], strays: Option<&Strays>) -> Episode {
    let (mut policy, mut user, task) = (scripted(script), user(), task());
    let cast = Cast::default().with(POLICY, &mut policy).with("user", &mut user);
    let (spawns, nobody) = ([spawn(&task, 1)], Partners::default());
    let program = strays.map(|program| Playing { program, others: &nobody });
    let spec = RolloutSpec { program, ..spec(till, &spawns) };
    let episode = play_with(cast, &mut Simulated::new(|_| Duration::ZERO), &spec).unwrap().remove(0);
    assert_eq!(replay(&spec, &spawns[0], &episode).unwrap(), episode);
    episode
}

fn moves() -> impl Strategy<Value = Message> {
    prop_oneof![
        (0..9).prop_map(|amount| calls(&[("add", json!({"amount": amount}))])),
        Just(calls(&[("read", json!({})), ("add", json!({"amount": 1}))])),
        Just(Message::assistant("hm")),
        Just(Message::assistant("ask size?")),
        Just(Message::assistant("ask anything else?")),
        Just(Message::assistant("done")),
        Just(calls(&[("break", json!({}))])),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn other_ways_change_nothing_on_the_one_that_counts(
        script in prop::collection::vec(moves(), 0..5),
        before in prop::option::of(moves()),
        after in prop::option::of(moves()),
        is_slow: bool,
    ) {
        let till = Till { is_slow, ..Till::default() };
        let plain = play_by(&till, &script, None);
        let strays = play_by(&till, &script, Some(&Strays { before, after }));
        prop_assert_eq!(&strays.answers, &plain.answers);
        prop_assert_eq!(&strays.verdict, &plain.verdict);
        prop_assert_eq!((strays.ending, strays.record.calls), (plain.ending, plain.record.calls));
    }
}

#[test]
fn nobody_is_asked_again_what_was_answered() {
    let till = Till::default();
    let script = [Message::assistant("ask size?"), Message::assistant("hm"), Message::assistant("hm")];
    let strays = Strays { before: Some(Message::assistant("hm")), after: None };
    let turns = |episode: &Episode| {
        let is_turn = |contact: &&Contact| matches!(contact.answer, Some(Told::Turn(_)));
        episode.record.contacts.iter().filter(is_turn).count()
    };
    let plain = play_by(&till, &script, None);
    assert_eq!(turns(&plain), plain.turns() + 2, "the user took two");
    assert_eq!(turns(&play_by(&till, &script, Some(&strays))), turns(&plain));
}

#[test]
fn what_changes_the_world_is_not_done_twice() {
    let till = Till::default();
    let script = [calls(&[("pay", json!({}))]), Message::assistant("hm")];
    let strays = Strays { before: Some(Message::assistant("hm")), after: None };
    let episode = play_by(&till, &script, Some(&strays));
    // The way that strayed after the payment took the environment along, and it can't be brought there a second time.
    assert_eq!((episode.ending, till.paid.load(Ordering::SeqCst)), (Ending::Lost, 1));
    let Validity::Unscored { reason } = &episode.verdict.validity else { panic!("{episode:?}") };
    assert!(reason.contains("changes the world"), "{reason}");
}

/// Each of its tills adds more than the one before.
#[derive(Default)]
struct Drifting(AtomicUsize);

impl Generator for Drifting {
    fn id(&self) -> &'static str {
        "drifting"
    }
    fn config(&self) -> Value {
        Value::Null
    }
    fn bounds(&self) -> Vec<Bound> {
        Vec::new()
    }
    fn tasks(&self, _: u64, _: usize) -> Result<TaskSet, EnvError> {
        Err(EnvError::Failed("not needed".into()))
    }
    fn environment(&self) -> Box<dyn Environment> {
        Till { more: self.0.fetch_add(1, Ordering::SeqCst) as i64, ..Till::default() }.environment()
    }
    fn draw(&self, _: &Task, _: Option<&str>) -> String {
        String::new()
    }
}

#[test]
fn an_environment_that_comes_to_another_point_ends_the_way() {
    let (generator, nobody, task) = (Drifting::default(), Partners::default(), task());
    let script = [calls(&[("add", json!({"amount": 1}))]), Message::assistant("hm")];
    let strays = Strays { before: Some(Message::assistant("hm")), after: None };
    let (spawns, till) = ([spawn(&task, 1)], Till::default());
    let program = Some(Playing { program: &strays, others: &nobody });
    let spec = RolloutSpec { generator: &generator, program, ..spec(&till, &spawns) };
    let mut policy = scripted(&script);
    let cast = Cast::default().with(POLICY, &mut policy);
    let episode = play_with(cast, &mut Simulated::new(|_| Duration::ZERO), &spec).unwrap().remove(0);
    assert_eq!(episode.ending, Ending::Lost);
    let Validity::Unscored { reason } = &episode.verdict.validity else { panic!("{episode:?}") };
    assert!(reason.contains("does not come to the same point"), "{reason}");
}

#[test]
fn an_overlong_prompt_of_somebody_else_is_not_taken_for_the_policys() {
    let (till, task) = (Till::default(), task());
    let script = [Message::assistant("ask size?")];
    let strays = Strays { before: None, after: None };
    let (spawns, nobody) = ([spawn(&task, 1)], Partners::default());
    for program in [None, Some(Playing { program: &strays, others: &nobody })] {
        let mut user = Script::new(|_| Err(PolicyError::PromptTooLong { tokens: 9, tokens_max: 5 }));
        let mut policy = scripted(&script);
        let cast = Cast::default().with(POLICY, &mut policy).with("user", &mut user);
        let spec = RolloutSpec { program, ..spec(&till, &spawns) };
        let error = play_with(cast, &mut Simulated::new(|_| Duration::ZERO), &spec).unwrap_err().to_string();
        assert!(error.contains("`user`") && error.contains("9 tokens"), "{error}");
    }
}
