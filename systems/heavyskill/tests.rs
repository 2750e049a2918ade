use burnish_rl::plan::{Plain, Request, Role, Start};
use serde_json::json;

use super::Heavyskill;
use crate::PLANS;
use crate::testing::{answered, batches, play};

#[test]
fn answers_read_the_drafts_of_their_own_group() {
    let plan = Heavyskill {
        drafts: 2,
        template: Some("{prompt} {drafts}".into()),
        draft: Some("[{draft}]".into()),
        ..Heavyskill::default()
    };
    let found = play(&plan, (3, 1), |_, at| answered(&format!("draft {at}"), false)).batches;
    let [thoughts, answers] = &found[..] else { panic!("{found:?}") };
    assert_eq!(thoughts[..], [Request { role: Role::Thought, ..Request::rollouts(2) }]);
    let Start::Messages(messages) = &answers[0].start else { panic!("{answers:?}") };
    let text = &messages[0].content;
    assert!(
        ["How many? [draft 0][draft 1]", "How many? [draft 1][draft 0]"].contains(&text.as_str()),
        "{text}"
    );
    assert_eq!((answers[0].role, answers[0].count), (Role::Rollout, 3));
    let none = Heavyskill { drafts: 0, ..plan };
    assert_eq!(batches(&none, (3, 1)), batches(&Plain, (3, 1)));
}

#[test]
fn settings_out_of_range_are_named() {
    let entry = PLANS.iter().find(|entry| entry.card.id == "heavyskill").unwrap();
    for (config, key) in [
        (json!({ "drafts": 257 }), "drafts"),
        (json!({ "draft_tokens": 0 }), "draft_tokens"),
        (json!({ "template": "{prompt}" }), "template"),
        (json!({ "draft": "none" }), "draft"),
    ] {
        assert_eq!((entry.build)(&config).err().unwrap().key, key);
    }
}
