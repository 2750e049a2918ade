use burnish_core::Message;
use burnish_rl::plan::{Beginning, Plain, Request, Role, Start};
use serde_json::{Value, json};

use crate::PlanConfig;
use crate::testing::{answered, batches, go_on, play};

#[test]
fn it_has_a_draft_unless_it_has_no_tokens_and_a_template_must_show_both() {
    let plan = |config: Value| PlanConfig { plan: "skpo".into(), config }.build().unwrap();
    let asked = |config: Value| batches(&*plan(config), (4, 1));
    let found = asked(json!({ "draft_tokens": 5 }));
    let [draft, answers] = &found[..] else { panic!("{found:?}") };
    assert_eq!((draft[0].role, draft[0].count, draft[0].tokens_max), (Role::Draft, 1, Some(5)));
    let shown = "How many?\nDraft: a draft\nHow many?\nThe draft may be wrong. Solve it.";
    let start = Start::Messages(vec![Message::user(shown)]);
    assert_eq!(answers[..], [Request { start, ..Request::rollouts(4) }]);
    assert_eq!(asked(json!({ "draft_tokens": 0 })), batches(&Plain, (4, 1)));
    let without = Request { prefix: vec![Beginning::Answer(0)], ..Request::rollouts(4) };
    assert_eq!(asked(json!({ "skip": false }))[1], [without]);
    let wrong = PlanConfig { plan: "skpo".into(), config: json!({ "template": "{prompt}" }) };
    assert_eq!(wrong.complete().unwrap_err().key, "config.template");
}

#[test]
fn a_draft_that_is_there_is_answered() {
    let skpo = super::Skpo::default();
    let whole = play(&skpo, (4, 1), |_, _| answered("y", true));
    let draft = whole.episodes.into_iter().take(1).collect();
    let answers = go_on(&skpo, (4, 1), draft, |_, _| answered("y", true));
    assert_eq!(answers.batches, whole.batches[1..]);
}
