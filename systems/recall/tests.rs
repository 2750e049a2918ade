use burnish_core::{Memory, Message, Note, Task, TaskId};
use burnish_episode::{Handle, Waited};
use burnish_reason::{Made, MakeKind, Outcome, Played, StrategyConfig, World};
use burnish_rl::plan::{Plain, Request, Start};
use serde_json::json;

use super::{Cases, Recall};
use crate::testing::{Case, NOWHERE, batches, left, task};
use crate::{MAKERS, PLANS};

#[test]
fn answers_read_the_notes_where_the_first_question_was_and_without_notes_it_is_no_plan() {
    let config =
        json!({ "count": 2, "template": "{notes}-- {prompt} {notes}", "note": "[{text} of {about}]" });
    let plan = (PLANS.iter().find(|entry| entry.card.id == "recall").unwrap().build)(&config).unwrap();
    assert!(plan.recalls() && plan.plays_evaluations());
    let [answers] = &batches(&*plan, (3, 1))[..] else { panic!("one batch") };
    let notes = "[0 of How many?][1 of How many?]";
    let start = Start::Messages(vec![Message::user(format!("{notes}-- How many? {notes}"))]);
    assert_eq!(answers[..], [Request { start, ..Request::rollouts(3) }]);
    // Nothing is found about nothing.
    let silent = || Case { task: Task { prompt: vec![Message::user("")], ..task() }, ..(3, 1).into() };
    assert_eq!(batches(&Recall::default(), silent()), batches(&Plain, silent()));
}

#[test]
fn what_a_note_or_a_question_says_is_never_a_place() {
    let plan = Recall(burnish_reason::Recall { count: 1, ..burnish_reason::Recall::default() });
    let prompt = vec![Message::system("s"), Message::user("{prompt} {text}"), Message::user("then")];
    let case = Case { task: Task { prompt, ..task() }, ..(1, 1).into() };
    let Start::Messages(shown) = batches(&plan, case).remove(0).remove(0).start else {
        panic!("no messages")
    };
    let own = "{prompt} {text}";
    assert_eq!(shown[1].content, format!("What helped before:\n\n{own}\n0\n\nNow:\n{own}"));
    assert_eq!([&shown[0].content, &shown[2].content], ["s", "then"]);
}

struct Nowhere;

impl World for Nowhere {
    fn fresh(&self, _: u64, _: usize, _: usize) -> Result<Vec<Task>, String> {
        Err(NOWHERE.into())
    }

    fn judge(&self, _: &Task, _: &[Message]) -> Result<burnish_core::Verdict, String> {
        Err(NOWHERE.into())
    }

    fn play<'a>(
        &'a self,
        _: &'a Handle,
        _: &'a Task,
        _: &'a StrategyConfig,
    ) -> Waited<'a, Result<Outcome, String>> {
        Box::pin(async { Err(NOWHERE.into()) })
    }
}

struct Known(Vec<Note>);

impl Memory for Known {
    fn notes(&self) -> &[Note] {
        &self.0
    }

    fn recall(&self, _: &str, _: usize, _: Option<&TaskId>) -> Vec<Note> {
        Vec::new()
    }
}

fn note(task: &str, text: &str) -> Note {
    Note { about: "How many?".into(), text: text.into(), task: Some(TaskId(task.into())) }
}

#[test]
fn the_shortest_right_answer_to_each_task_is_noted_after_what_is_known_and_the_oldest_are_forgotten() {
    let outcome = |text: &str, success: bool, tokens: usize| {
        let answers = text.split(' ').map(Message::assistant).collect();
        Outcome { answers, success, reward: 1.0, tokens }
    };
    let played = |id: &str, episodes: Vec<Outcome>| {
        let task = Task { id: TaskId(id.into()), ..task() };
        Played { task, episodes }
    };
    let all = [
        played(
            "a",
            vec![outcome("long and", true, 9), outcome("go there", true, 4), outcome("no", false, 1)],
        ),
        played("b", vec![outcome("no", false, 1)]),
        played("c", vec![outcome("here", true, 2)]),
        played("d", vec![outcome("\u{FFFD}", true, 2)]),
    ];
    let known = Known(vec![note("x", "old"), note("y", "older")]);
    let made = |capacity: usize| -> Vec<Note> {
        let finished =
            left(&Cases { capacity }, MakeKind::Memory, &all, &Nowhere, None, Some(&known)).unwrap();
        let notes = finished.made.into_iter().map(|made| match made {
            Made::Note(note) => note,
            other => panic!("{other:?}"),
        });
        notes.collect()
    };
    let whole = [note("x", "old"), note("y", "older"), note("a", "go\nthere"), note("c", "here")];
    assert_eq!(made(9), whole);
    assert_eq!(made(3), whole[1..]);
}

#[test]
fn settings_out_of_range_are_named() {
    let plan = PLANS.iter().find(|entry| entry.card.id == "recall").unwrap();
    for (config, key) in [(json!({ "count": 0 }), "count"), (json!({ "template": "{prompt}" }), "template")] {
        assert_eq!((plan.build)(&config).err().unwrap().key, key);
    }
    let maker = MAKERS.iter().find(|entry| entry.card.id == "cases").unwrap();
    assert_eq!((maker.build)(&json!({ "capacity": 0 })).err().unwrap().key, "capacity");
}
