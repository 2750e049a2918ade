//! An episode, run again on its record, arrives at the same point.

use std::cell::RefCell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use burnish_core::rng::{Address, Purpose};
use burnish_core::{
    Abilities, Answered, Message, NodeId, Policy, PolicyError, Record, Repeating, Sampling, Script,
    StopReason, Told, Trace, Turn, TurnId, TurnOutput,
};
use burnish_episode::{
    Agent, Ask, Cast, ContactError, Finished, Handle, Known, Outside, RunError, Simulated, Started, Threads,
    Work, run, run_programs,
};
use proptest::prelude::*;

fn address(rollout: usize) -> Address {
    Address { rollout: rollout as u64, ..Address::new(7, Purpose::Environment) }
}

fn ask(messages: &[Message], seed: u64) -> Ask {
    Ask {
        messages: Arc::new(messages.to_vec()),
        tools: Arc::default(),
        prefix: Vec::new(),
        sampling: Arc::new(Sampling::at(1.0, 8)),
        seed,
    }
}

/// A policy that answers with the seed of each turn.
fn seeds() -> impl Policy {
    Script::recorded_as(vec![1, 2], |turn: &Turn| Ok((format!("{:x}", turn.seed), StopReason::EndToken)))
}

/// A policy that must not be asked.
fn mute() -> impl Policy {
    Script::new(|_: &Turn| Err(PolicyError::Failed("it was asked".into())))
}

fn finished<T>(
    known: Known,
    policy: &mut dyn Policy,
    outside: &mut dyn Outside,
    episode: impl AsyncFnOnce(Handle) -> Result<T, ContactError>,
) -> Result<Finished<T>, RunError<ContactError>> {
    let started = Started::new(address(0), known, episode);
    Ok(run(vec![started], Cast::default().with("policy", policy), outside)?.remove(0))
}

fn simulated() -> impl Outside {
    Simulated::new(|_| Duration::from_millis(5))
}

fn known<T>(finished: &Finished<T>) -> Known {
    Known { record: finished.record.clone(), traces: finished.traces.clone() }
}

fn value(what: &str, repeating: Repeating, is_slow: bool) -> Work<'_, str> {
    Work { what, question: what, repeating, is_slow, is_end: |value| value == "over" }
}

/// The next action of a random episode.
#[derive(Debug, Clone)]
enum Deed {
    Turn,
    Work(Repeating, bool),
    Wait(u64),
    All(Vec<Deed>),
    First(Vec<Deed>),
}

fn deeds() -> impl Strategy<Value = Vec<Deed>> {
    let repeating =
        prop_oneof![Just(Repeating::Repeatable), Just(Repeating::Rebuilt), Just(Repeating::Outside)];
    let leaf = prop_oneof![
        Just(Deed::Turn),
        (repeating, any::<bool>()).prop_map(|(repeating, slow)| Deed::Work(repeating, slow)),
        (0..9u64).prop_map(Deed::Wait),
    ];
    let deed = leaf.prop_recursive(2, 12, 3, |inner| {
        let few = prop::collection::vec(inner, 1..4);
        prop_oneof![few.clone().prop_map(Deed::All), few.prop_map(Deed::First)]
    });
    prop::collection::vec(deed, 0..5)
}

/// Does the actions and notes what it sees.
async fn act(
    handle: &Handle,
    agent: &Agent,
    deeds: &[Deed],
    turn: &RefCell<u64>,
) -> Result<Vec<String>, ContactError> {
    let mut seen = Vec::new();
    for deed in deeds {
        match deed {
            Deed::Turn => {
                let number = turn.replace_with(|turn| *turn + 1);
                seen.push(handle.sample(agent, ask(&[], handle.seed(agent, number))).await?.message.content);
            }
            Deed::Work(repeating, is_slow) => {
                let task = value("adding", *repeating, *is_slow);
                let (state, sum) = handle.work(task, 4u32, |state, _| *state + 38).await?;
                seen.push(format!("{state} {sum}"));
            }
            Deed::Wait(milliseconds) => handle.wait(Duration::from_millis(*milliseconds)).await?,
            Deed::All(inner) => {
                let policy: Arc<str> = "policy".into();
                let over = handle.all(inner.len() as u32, |at, handle| {
                    let (policy, inner) = (Arc::clone(&policy), inner);
                    async move {
                        let agent = handle.agent(&policy, Trace::new());
                        Box::pin(act(&handle, &agent, &inner[at as usize..=at as usize], &RefCell::new(0)))
                            .await
                    }
                });
                for over in over.await {
                    seen.extend(over?);
                }
            }
            Deed::First(inner) => {
                let policy: Arc<str> = "policy".into();
                let won = handle.first(inner.len() as u32, |at, handle| {
                    let (policy, inner) = (Arc::clone(&policy), inner);
                    async move {
                        let agent = handle.agent(&policy, Trace::new());
                        Box::pin(act(&handle, &agent, &inner[at as usize..=at as usize], &RefCell::new(0)))
                            .await
                    }
                });
                let (winner, over) = won.await?;
                seen.push(format!("{winner} won"));
                seen.extend(over?);
            }
        }
    }
    Ok(seen)
}

async fn acted(handle: Handle, deeds: &[Deed]) -> Result<Vec<String>, ContactError> {
    let agent = handle.agent(&"policy".into(), Trace::new());
    act(&handle, &agent, deeds, &RefCell::new(0)).await
}

proptest! {
    #[test]
    fn an_episode_on_its_record_sees_the_same_and_asks_nobody(deeds in deeds(), times in prop::collection::vec(0..9u64, 1..8)) {
        let time = |times: Vec<u64>| Simulated::new(move |id| Duration::from_millis(times[id.0 as usize % times.len()]));
        let live = finished(Known::default(), &mut seeds(), &mut time(times), |handle| acted(handle, &deeds)).unwrap();
        // Another clock, and a policy that fails when asked.
        let again = finished(known(&live), &mut mute(), &mut simulated(), |handle| acted(handle, &deeds)).unwrap();
        prop_assert_eq!(&again.value, &live.value);
        prop_assert_eq!(&again.record, &live.record);
        prop_assert_eq!(&again.traces, &live.traces);
        // The record survives a round trip through JSON.
        let text = serde_json::to_string(&live.record).unwrap();
        prop_assert_eq!(serde_json::from_str::<Record>(&text).unwrap(), live.record);
    }

    #[test]
    fn an_episode_goes_on_from_any_beginning_of_its_record(deeds in deeds(), share in 0.0..1.0f64) {
        // Races are left out: who comes first may differ if one branch has a head start.
        let deeds: Vec<Deed> = deeds.into_iter().map(without_races).collect();
        let live = finished(Known::default(), &mut seeds(), &mut simulated(), |handle| acted(handle, &deeds)).unwrap();
        let mut cut = known(&live);
        cut.record.contacts.truncate((share * cut.record.contacts.len() as f64) as usize);
        let again = finished(cut, &mut seeds(), &mut simulated(), |handle| acted(handle, &deeds)).unwrap();
        prop_assert_eq!(&again.value, &live.value);
        prop_assert_eq!(&again.record, &live.record);
        prop_assert_eq!(&again.traces, &live.traces);
    }
}

fn without_races(deed: Deed) -> Deed {
    match deed {
        Deed::First(inner) | Deed::All(inner) => Deed::All(inner.into_iter().map(without_races).collect()),
        other => other,
    }
}

#[test]
fn the_first_agent_of_the_root_has_the_seeds_of_the_address_and_no_two_turns_share_one() {
    let said = |agents: usize| {
        finished(Known::default(), &mut seeds(), &mut simulated(), async |handle| {
            let mut said = Vec::new();
            for _ in 0..agents {
                let agent = handle.agent(&"policy".into(), Trace::new());
                for turn in 0..3 {
                    said.push(
                        handle.sample(&agent, ask(&[], handle.seed(&agent, turn))).await?.message.content,
                    );
                }
                let inner = handle.branch(4);
                let other = inner.agent(&"policy".into(), Trace::new());
                said.push(inner.sample(&other, ask(&[], inner.seed(&other, 0))).await?.message.content);
                said.push(inner.sample(&agent, ask(&[], inner.seed(&agent, 0))).await?.message.content);
            }
            Ok(said)
        })
        .unwrap()
        .value
    };
    let seed = |turn| Address { turn, purpose: Purpose::Sample, ..address(0) }.seed();
    let two = said(2);
    assert_eq!(two[..3], [0, 1, 2].map(|turn| format!("{:x}", seed(turn))));
    assert_eq!(two[..5], said(1)[..]);
    let mut unique = two.clone();
    unique.sort();
    unique.dedup();
    assert_eq!(unique.len(), two.len());
}

#[test]
fn what_repeating_means_decides_what_is_done_again() {
    let done = Arc::new(Mutex::new(Vec::new()));
    let episode = async |handle: Handle| {
        let mut kept = Vec::new();
        for (what, repeating) in [
            ("reading", Repeating::Repeatable),
            ("building", Repeating::Rebuilt),
            ("paying", Repeating::Outside),
        ] {
            let noted = Arc::clone(&done);
            let ((), key) = handle
                .work(value(what, repeating, false), (), move |(), key| {
                    noted.lock().unwrap().push(what);
                    key.to_owned()
                })
                .await?;
            kept.push(key);
        }
        Ok(kept)
    };
    let live = finished(Known::default(), &mut mute(), &mut simulated(), episode).unwrap();
    assert_eq!(std::mem::take(&mut *done.lock().unwrap()), ["reading", "building", "paying"]);
    assert_eq!(live.value, ["7-0-0-0-0/0", "7-0-0-0-0/1", "7-0-0-0-0/2"]);
    finished(known(&live), &mut mute(), &mut simulated(), episode).unwrap();
    assert_eq!(std::mem::take(&mut *done.lock().unwrap()), ["building"]);

    // Begun, with unknown outcome: the first two are done again, the last one never.
    for (at, error) in [
        (0, None),
        (1, None),
        (2, Some("paying was begun at 2, its outcome is unknown, and it must not be repeated")),
    ] {
        let mut cut = known(&live);
        cut.record.contacts.truncate(at + 1);
        cut.record.contacts[at].answer = None;
        let again = finished(cut, &mut mute(), &mut simulated(), episode);
        assert_eq!(again.err().map(|error| error.to_string()).as_deref(), error);
    }

    // Rebuilt work must have the same result.
    let mut other = known(&live);
    other.record.contacts[1].answer = Some(Told::Value("another".into()));
    let error = finished(other, &mut mute(), &mut simulated(), episode).unwrap_err();
    assert_eq!(error.to_string(), "building was repeated at 1 with a different result");
    // A result that ended the episode is taken.
    let mut over = known(&live);
    over.record.contacts[1].answer = Some(Told::Value("over".into()));
    std::mem::take(&mut *done.lock().unwrap());
    assert_eq!(finished(over, &mut mute(), &mut simulated(), episode).unwrap().value[1], "over");
    assert!(done.lock().unwrap().is_empty());
}

#[test]
fn a_record_of_another_function_is_refused_with_the_place() {
    let two = async |handle: Handle| {
        let agent = handle.agent(&"policy".into(), Trace::new());
        let first = handle.sample(&agent, ask(&[Message::user("a")], 0)).await?.message;
        handle.sample(&agent, ask(&[Message::user("a"), first], 1)).await
    };
    let live = finished(Known::default(), &mut seeds(), &mut simulated(), two).unwrap();
    let other = async |handle: Handle| {
        let agent = handle.agent(&"policy".into(), Trace::new());
        handle.sample(&agent, ask(&[Message::user("b")], 0)).await
    };
    let error = finished(known(&live), &mut mute(), &mut simulated(), other).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the record does not fit the episode: at 1, something else was asked there"
    );
    let shorter = async |handle: Handle| {
        let agent = handle.agent(&"policy".into(), Trace::new());
        handle.sample(&agent, ask(&[Message::user("a")], 0)).await
    };
    let error = finished(known(&live), &mut mute(), &mut simulated(), shorter).unwrap_err();
    assert_eq!(
        error.to_string(),
        "episode 0: the record does not fit the episode: at 2, the record goes on, but the episode is over"
    );
    let mut without = known(&live);
    without.traces.clear();
    let error = finished(without, &mut mute(), &mut simulated(), two).unwrap_err();
    assert!(error.to_string().contains("at 1, its trace has 1 nodes"), "{error}");
}

#[test]
fn who_loses_a_race_is_given_up_and_who_won_is_on_the_record() {
    let race = async |handle: Handle| {
        handle
            .first(3, async |at, handle| {
                handle.wait(Duration::from_millis([30, 10, 20][at as usize])).await?;
                handle.wait(Duration::from_millis(1)).await
            })
            .await
    };
    let mut outside = simulated();
    let live = finished(Known::default(), &mut mute(), &mut outside, race).unwrap();
    assert_eq!(live.value.0, 1);
    // Nobody waits for the losers.
    assert_eq!(outside.now(), Duration::from_millis(11));
    let again = finished(known(&live), &mut mute(), &mut simulated(), race).unwrap();
    assert_eq!((again.value.0, again.record), (1, live.record));
}

/// Answers the newest turn first, one at a time, and notes which turns are cancelled.
#[derive(Default)]
struct OneByOne {
    waiting: Vec<(TurnId, Turn)>,
    cancelled: Vec<TurnId>,
    next: u64,
}

impl Policy for OneByOne {
    fn abilities(&self) -> Abilities {
        Abilities::TEXT
    }
    fn version(&self) -> u64 {
        0
    }
    fn submit(&mut self, turn: Turn) -> TurnId {
        let id = TurnId(self.next);
        self.next += 1;
        self.waiting.push((id, turn));
        id
    }
    fn poll(&mut self) -> Vec<Answered> {
        let output = |turn: &Turn| {
            TurnOutput::new(Message::assistant(format!("{:x}", turn.seed)), StopReason::EndToken)
        };
        let over = self.waiting.pop();
        over.map(|(id, turn)| Answered { id, result: Ok(output(&turn)), trace: turn.trace })
            .into_iter()
            .collect()
    }
    fn wait(&mut self) -> Vec<Answered> {
        self.poll()
    }
    fn cancel(&mut self, id: TurnId) -> bool {
        self.waiting.retain(|(waiting, _)| *waiting != id);
        self.cancelled.push(id);
        true
    }
}

#[test]
fn turns_that_nobody_waits_for_any_more_are_cancelled() {
    let mut policy = OneByOne::default();
    let raced = finished(Known::default(), &mut policy, &mut simulated(), async |handle: Handle| {
        let won = handle.first(4, async |_, handle| {
            let agent = handle.agent(&"policy".into(), Trace::new());
            handle.sample(&agent, ask(&[], 0)).await
        });
        Ok(won.await?.0)
    });
    assert_eq!(raced.unwrap().value, 3);
    assert_eq!(policy.cancelled, [TurnId(0), TurnId(1), TurnId(2)]);
}

#[test]
fn an_error_of_one_episode_gives_all_up() {
    let mut policy = OneByOne::default();
    let episodes = (0..3).map(|at| {
        Started::new(address(at), Known::default(), move |handle: Handle| async move {
            let agent = handle.agent(&"policy".into(), Trace::new());
            handle.sample(&agent, ask(&[], 0)).await?;
            match at {
                2 => Err(ContactError::Failed { what: "this".into(), problem: "gone".into() }),
                _ => Ok(()),
            }
        })
    });
    let error =
        run(episodes.collect(), Cast::default().with("policy", &mut policy), &mut simulated()).unwrap_err();
    assert_eq!(error.to_string(), "this failed: gone");
    assert_eq!(policy.cancelled, [TurnId(0), TurnId(1)]);
}

#[test]
fn a_policy_that_is_not_there_and_a_function_that_waits_for_nothing_are_errors() {
    let nobody = finished(Known::default(), &mut mute(), &mut simulated(), async |handle: Handle| {
        let agent = handle.agent(&"user".into(), Trace::new());
        handle.sample(&agent, ask(&[], 0)).await
    });
    assert!(nobody.unwrap_err().to_string().contains("nobody answers as `user`"));
    let stuck = finished(Known::default(), &mut mute(), &mut simulated(), async |_| {
        std::future::pending::<()>().await;
        Ok(())
    });
    assert_eq!(stuck.unwrap_err().to_string(), "episode 0 waits for something that it has not asked for");
}

#[test]
fn slow_work_runs_beside_everything_else_and_a_panic_is_an_error_of_its_own() {
    let most = Arc::new(AtomicUsize::new(0));
    let now = Arc::new(AtomicUsize::new(0));
    let episodes = (0..40).map(|at| {
        let (most, now) = (Arc::clone(&most), Arc::clone(&now));
        Started::new(address(at), Known::default(), move |handle: Handle| async move {
            let task = value("sleeping", Repeating::Outside, true);
            let slept = handle.work(task, (), move |(), _| {
                most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                std::thread::sleep(Duration::from_millis(100));
                now.fetch_sub(1, Ordering::SeqCst);
                assert!(at != 7, "seven");
            });
            Ok::<_, ContactError>(slept.await.map_err(|error| error.to_string()).err())
        })
    });
    let mut policy = mute();
    let mut threads = Threads::default();
    let over = run(episodes.collect(), Cast::default().with("policy", &mut policy), &mut threads).unwrap();
    assert!(most.load(Ordering::SeqCst) > 20);
    for (at, over) in over.iter().enumerate() {
        assert_eq!(over.value.as_deref(), (at == 7).then_some("sleeping failed: seven"));
    }
}

#[test]
fn few_threads_do_much_work_and_timers_end_when_they_are_due() {
    let episodes = (0..20).map(|at| {
        Started::new(address(at), Known::default(), move |handle: Handle| async move {
            let ((), sum) =
                handle.work(value("adding", Repeating::Rebuilt, true), (), move |(), _| at + 1).await?;
            handle.wait(Duration::from_millis(20)).await?;
            Ok::<usize, ContactError>(sum)
        })
    });
    let mut policy = mute();
    let over =
        run(episodes.collect(), Cast::default().with("policy", &mut policy), &mut Threads::new(2)).unwrap();
    assert_eq!(over.iter().map(|over| over.value).collect::<Vec<_>>(), (1..=20).collect::<Vec<_>>());
}

/// Answers the newest turn first, one at a time.
struct Backwards<P>(P, Vec<Answered>);

impl<P: Policy> Policy for Backwards<P> {
    fn abilities(&self) -> Abilities {
        self.0.abilities()
    }
    fn version(&self) -> u64 {
        self.0.version()
    }
    fn submit(&mut self, turn: Turn) -> TurnId {
        self.0.submit(turn)
    }
    fn poll(&mut self) -> Vec<Answered> {
        self.1.extend(self.0.poll());
        self.1.pop().into_iter().collect()
    }
    fn wait(&mut self) -> Vec<Answered> {
        self.1.extend(self.0.wait());
        self.poll()
    }
    fn cancel(&mut self, id: TurnId) -> bool {
        self.0.cancel(id)
    }
}

#[test]
fn turns_side_by_side_grow_one_trace_in_their_order() {
    let tree = async |handle: Handle| {
        let agent = handle.agent(&"policy".into(), Trace::new());
        let one = [Message::user("1")];
        let first = handle.sample_each(&agent, (1..4).map(|seed| (None, ask(&one, seed))).collect()).await;
        let first = first.into_iter().collect::<Result<Vec<_>, _>>()?;
        let two = [Message::user("2")];
        let from = |at: usize| (first[at].1, ask(&two, 10 + at as u64));
        let second = handle.sample_each(&agent, vec![from(2), from(0)]).await;
        let second = second.into_iter().collect::<Result<Vec<_>, _>>()?;
        let trace = handle.trace(&agent);
        let path = |end: Option<NodeId>| trace.path(end.unwrap()).into_iter().map(|NodeId(at)| at).collect();
        let ends: Vec<(String, Vec<usize>)> = first
            .iter()
            .chain(&second)
            .map(|(output, end)| (output.message.content.clone(), path(*end)))
            .collect();
        Ok(ends)
    };
    let played = finished(Known::default(), &mut seeds(), &mut simulated(), tree).unwrap();
    let said: Vec<&str> = played.value.iter().map(|(said, _)| &**said).collect();
    assert_eq!(said, ["1", "2", "3", "c", "a"]);
    let paths: Vec<&[usize]> = played.value.iter().map(|(_, path)| &**path).collect();
    assert_eq!(paths, [&[0][..], &[1], &[2], &[2, 3], &[0, 4]]);
    // The order of answers does not matter.
    let mut backwards = Backwards(seeds(), Vec::new());
    let again = finished(Known::default(), &mut backwards, &mut simulated(), tree).unwrap();
    assert_eq!((&again.value, &again.traces), (&played.value, &played.traces));
    assert_eq!(again.record, played.record);
    let replayed = finished(known(&played), &mut mute(), &mut simulated(), tree).unwrap();
    assert_eq!(
        (replayed.value, replayed.traces, replayed.record),
        (played.value, played.traces, played.record)
    );
}

/// One turn after a wait; says what it was told.
async fn after(handle: Handle, milliseconds: u64) -> Result<String, ContactError> {
    handle.wait(Duration::from_millis(milliseconds)).await?;
    let agent = handle.agent(&"policy".into(), Trace::new());
    Ok(handle.sample(&agent, ask(&[], handle.seed(&agent, 0))).await?.message.content)
}

#[test]
fn an_episode_within_a_function_is_what_it_would_be_alone() {
    let alone =
        finished(Known::default(), &mut seeds(), &mut simulated(), async |handle| after(handle, 3).await);
    let alone = alone.unwrap();
    let within = async |outer: Handle, known: Known| {
        outer.episode(address(0), known, async |handle| after(handle, 3).await).await
    };
    let program =
        Started::new(address(9), Known::default(), async |outer| within(outer, Known::default()).await);
    let over =
        run(vec![program], Cast::default().with("policy", &mut seeds()), &mut simulated()).unwrap().remove(0);
    assert!(over.record.contacts.is_empty() && over.record.agents.is_empty() && over.traces.is_empty());
    let inner = over.value;
    assert_eq!((&inner.value, &inner.record, &inner.traces), (&alone.value, &alone.record, &alone.traces));
    // On its record nobody is asked, and no time passes.
    let again = known(&inner);
    let program = Started::new(address(9), Known::default(), async move |outer| within(outer, again).await);
    let over =
        run(vec![program], Cast::default().with("policy", &mut mute()), &mut simulated()).unwrap().remove(0);
    assert_eq!((over.value.value, over.value.record), (alone.value, alone.record));
}

#[test]
fn no_function_waits_for_the_episodes_of_another_and_no_more_are_under_way_than_may_be() {
    // Two functions play two episodes each, one after the other; those of the second are slow.
    let (events, under_way) = (RefCell::new(Vec::new()), RefCell::new((0, 0)));
    let program = |name: &'static str, milliseconds: u64| {
        let (events, under_way) = (&events, &under_way);
        Started::new(address(0), Known::default(), async move |outer: Handle| {
            for number in 0..2 {
                let over = outer.all(3, |at, outer| async move {
                    outer
                        .episode(address(1 + at as usize), Known::default(), async |handle| {
                            let now = under_way.borrow().0 + 1;
                            let most = under_way.borrow().1.max(now);
                            *under_way.borrow_mut() = (now, most);
                            let said = after(handle, milliseconds).await;
                            under_way.borrow_mut().0 -= 1;
                            said
                        })
                        .await
                });
                over.await.into_iter().collect::<Result<Vec<_>, _>>()?;
                events.borrow_mut().push(format!("{name}{number}"));
            }
            Ok::<(), RunError<ContactError>>(())
        })
    };
    let most = |within: usize| {
        let programs = vec![program("fast", 1), program("slow", 100)];
        run_programs(9, within, programs, Cast::default().with("policy", &mut seeds()), &mut simulated())
            .unwrap();
        (events.take(), std::mem::take(&mut under_way.borrow_mut().1))
    };
    let whole = ["fast0", "fast1", "slow0", "slow1"].map(str::to_owned).to_vec();
    assert_eq!(most(usize::MAX), (whole.clone(), 6));
    assert_eq!(most(4), (whole, 4));
    assert_eq!(most(1).1, 1);
}

#[test]
fn quiet_comes_when_nothing_is_under_way_and_to_all_who_wait_for_it_at_once() {
    let events = RefCell::new(Vec::new());
    let program = |milliseconds: u64| {
        let events = &events;
        Started::new(address(0), Known::default(), async move |outer: Handle| {
            outer.wait(Duration::from_millis(milliseconds)).await?;
            events.borrow_mut().push(milliseconds);
            outer.quiet().await;
            events.borrow_mut().push(100 + milliseconds);
            Ok::<(), ContactError>(())
        })
    };
    run(vec![program(9), program(1), program(5)], Cast::default(), &mut simulated()).unwrap();
    assert_eq!(*events.borrow(), [1, 5, 9, 109, 101, 105]);
}

#[test]
fn an_episode_within_an_episode_begins_although_the_outer_one_takes_all_the_room() {
    let program = Started::new(address(0), Known::default(), async |outer: Handle| {
        let middle = outer.episode(address(1), Known::default(), async |middle| {
            middle.episode(address(2), Known::default(), async |inner| after(inner, 1).await).await
        });
        middle.await.map(|over| over.value.value)
    });
    let cast = || Cast::default();
    let mut policy = seeds();
    let over =
        run_programs(1, 1, vec![program], cast().with("policy", &mut policy), &mut simulated()).unwrap();
    let alone = Started::new(address(2), Known::default(), async |handle| after(handle, 1).await);
    let alone = run(vec![alone], cast().with("policy", &mut seeds()), &mut simulated()).unwrap();
    assert_eq!(over[0].value, alone[0].value);
}

#[test]
fn an_episode_within_a_function_that_does_not_fit_its_record_is_an_error_of_the_function() {
    let two = async |handle: Handle| {
        after(handle.clone(), 1).await?;
        after(handle, 1).await
    };
    let longer = finished(Known::default(), &mut seeds(), &mut simulated(), two).unwrap();
    let program = Started::new(address(9), Known::default(), async move |outer: Handle| {
        let over = outer.episode(address(0), known(&longer), async |handle| after(handle, 1).await).await;
        over.map(|over| over.value)
    });
    let error =
        run(vec![program], Cast::default().with("policy", &mut mute()), &mut simulated()).unwrap_err();
    assert!(error.to_string().contains("the record goes on"), "{error}");
}

#[test]
fn an_episode_that_was_let_in_and_does_not_come_leaves_its_room() {
    // Both are let in at once; the first is over at once, and drops the other before it has begun.
    let most = RefCell::new((0, 0));
    let counted = async |handle: Handle| {
        let now = most.borrow().0 + 1;
        let all = most.borrow().1.max(now);
        *most.borrow_mut() = (now, all);
        let said = after(handle, 1).await;
        most.borrow_mut().0 -= 1;
        said
    };
    let program = Started::new(address(0), Known::default(), async |outer: Handle| {
        for _ in 0..4 {
            let race = outer.first(2, async |at, handle: Handle| {
                let play =
                    async |handle: Handle| if at == 0 { Ok(()) } else { counted(handle).await.map(drop) };
                handle.episode(address(1 + at as usize), Known::default(), play).await.is_ok()
            });
            assert_eq!(race.await?, (0, true));
        }
        let each = outer.all(6, async |at, handle: Handle| {
            handle.episode(address(3 + at as usize), Known::default(), counted).await.is_ok()
        });
        Ok::<_, ContactError>(each.await.into_iter().all(|is_over| is_over))
    });
    let mut policy = seeds();
    let cast = Cast::default().with("policy", &mut policy);
    let over = run_programs(1, 2, vec![program], cast, &mut simulated()).unwrap();
    assert!(over[0].value);
    assert_eq!(most.borrow().1, 2, "both rooms are there again");
}

#[test]
fn what_is_aside_takes_no_room() {
    // The only room is taken, and there is something to wait for.
    let events = RefCell::new(Vec::new());
    let program = Started::new(address(0), Known::default(), async |outer: Handle| {
        let both = outer.all(2, async |at, handle: Handle| {
            if at == 0 {
                handle.wait(Duration::from_millis(100)).await?;
                events.borrow_mut().push("waited");
                return Ok(());
            }
            let within = async |handle: Handle| {
                let said = handle.aside(address(5), async |handle| after(handle, 1).await).await;
                events.borrow_mut().push("aside");
                said.map(drop).map_err(|_| ContactError::from(PolicyError::Failed("it failed".into())))
            };
            let over = handle.episode(address(1), Known::default(), within).await;
            over.map(drop).map_err(|_| ContactError::from(PolicyError::Failed("it failed".into())))
        });
        both.await.into_iter().collect::<Result<(), ContactError>>()
    });
    let mut policy = seeds();
    let cast = Cast::default().with("policy", &mut policy);
    run_programs(1, 1, vec![program], cast, &mut simulated()).unwrap();
    assert_eq!(*events.borrow(), ["aside", "waited"]);
}

#[test]
fn the_keys_of_work_within_episodes_at_one_address_are_different_and_come_again() {
    let keys = || {
        let keys = RefCell::new(Vec::new());
        let program = Started::new(address(0), Known::default(), async |outer: Handle| {
            let within = async |handle: Handle| {
                let work = value("calling", Repeating::Outside, false);
                let ((), key) = handle.work(work, (), |(), key: &str| key.to_owned()).await?;
                keys.borrow_mut().push(key);
                Ok::<(), ContactError>(())
            };
            // As two strategies play the same task.
            for _ in 0..2 {
                outer.episode(address(1), Known::default(), within).await?;
            }
            Ok::<(), RunError<ContactError>>(())
        });
        run(vec![program], Cast::default(), &mut simulated()).unwrap();
        keys.into_inner()
    };
    let first = keys();
    assert!(first.len() == 2 && first[0] != first[1], "{first:?}");
    assert_eq!(keys(), first);
}
