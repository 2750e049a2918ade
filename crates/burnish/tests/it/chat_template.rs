//! `policy.chat_template`: a base model without a template is trained and sampled with the template in a file.

use crate::common;
use crate::common::Scratch;

/// ChatML with words of its own, to distinguish it from the tiny policy's template.
const TEMPLATE: &str = "{% for message in messages %}<|im_start|>{{ message.role }}:\n{{ message.content }}<|im_end|>\n\
    {% endfor %}{% if add_generation_prompt %}<|im_start|>assistant:\n{% endif %}";

/// The tiny policy in `base/`, without a template, and the recipes with `policy.path` there.
fn base() -> Scratch {
    let scratch = Scratch::with_policy();
    std::fs::create_dir(scratch.path("base")).unwrap();
    for file in std::fs::read_dir(scratch.path("tiny/checkpoints/step_120")).unwrap() {
        let file = file.unwrap();
        if file.path().is_file() && file.file_name() != "chat_template.jinja" {
            std::fs::copy(file.path(), scratch.path("base").join(file.file_name())).unwrap();
        }
    }
    let sft = common::TINY_SFT.replace("dir = \"tiny\"", "dir = \"sft\"");
    let (head, rest) = sft.split_once("[policy.new]").unwrap();
    let rest = &rest[rest.find("[env]").unwrap()..];
    scratch.write("sft.toml", format!("{head}[policy]\npath = \"base\"\n{rest}"));
    scratch.write("grpo.toml", common::TINY_GRPO.replace("tiny/checkpoints/step_120", "base"));
    scratch.write("chat.jinja", TEMPLATE);
    scratch
}

const SET: &str = "policy.chat_template=chat.jinja";

#[test]
fn a_base_model_is_trained_and_sampled_from_with_the_template_of_the_recipe() {
    let scratch = base();
    let advised = ["there is no chat template", "base/chat_template.jinja", "`policy.chat_template`"];
    for command in [&["train", "sft.toml"][..], &["train", "grpo.toml"], &["rollout", "grpo.toml"]] {
        scratch.burnish(command).fails_with(&advised);
    }
    let says_template = |checkpoint: &str| {
        let found = scratch.read(&format!("{checkpoint}/chat_template.jinja"));
        assert_eq!(String::from_utf8(found).unwrap(), TEMPLATE, "{checkpoint}");
    };
    scratch.burnish(&["train", "sft.toml", SET, "train.max_steps=2", "checkpoint.every=1"]).succeeds();
    says_template("sft/checkpoints/step_2");
    // The reference is the base model, which has no template either.
    scratch.burnish(&["train", "grpo.toml", SET, "train.max_steps=2", "eval.every=0"]).succeeds();
    says_template("grpo/checkpoints/step_2");
    let shown = scratch.burnish(&["rollout", "grpo.toml", SET, "--count", "1"]).succeeds().stdout();
    assert!(!shown.is_empty());
    let own = scratch.burnish(&["eval", "grpo.toml", SET, "--json"]).succeeds().stdout();
    let named = ["eval", "sft.toml", SET, "--policy", "base", "--json"];
    assert_eq!(scratch.burnish(&named).succeeds().stdout(), own);

    // From the first checkpoint on, the run does not need the file any more.
    std::fs::remove_file(scratch.path("chat.jinja")).unwrap();
    scratch.burnish(&["train", "--resume", "grpo", "train.max_steps=3"]).succeeds();
    says_template("grpo/checkpoints/step_3");
    scratch.burnish(&["eval", "grpo", "--json"]).succeeds();
    scratch.burnish(&["rollout", "grpo", "--count", "1"]).succeeds();
}

#[test]
fn a_new_policy_and_what_another_recipe_makes_take_it_too() {
    let scratch = base();
    scratch.write("new.toml", common::TINY_SFT.replace("dir = \"tiny\"", "dir = \"new\""));
    scratch.burnish(&["train", "new.toml", SET, "train.max_steps=1"]).succeeds();
    assert_eq!(scratch.read("new/checkpoints/step_1/chat_template.jinja"), TEMPLATE.as_bytes());
    let after = common::TINY_GRPO.replace(
        "path = \"tiny/checkpoints/step_120\"",
        "from = { recipe = \"new.toml\", set = [\"train.max_steps=1\"] }",
    );
    scratch.write("after.toml", after.replace("dir = \"grpo\"", "dir = \"after\""));
    scratch.burnish(&["train", "after.toml", SET, "train.max_steps=1", "checkpoint.every=1"]).succeeds();
    assert_eq!(scratch.read("after/checkpoints/step_1/chat_template.jinja"), TEMPLATE.as_bytes());
    assert_ne!(scratch.read("after/start/chat_template.jinja"), TEMPLATE.as_bytes());
}

#[test]
fn a_file_that_is_not_there_or_is_no_template_is_refused_with_the_key() {
    let scratch = base();
    scratch.write("bad.jinja", "{% for message in messages %}\n{% endif %}");
    scratch.write("latin.jinja", b"caf\xe9");
    for (file, parts) in [
        ("none.jinja", &["none.jinja"][..]),
        ("bad.jinja", &["bad.jinja", "does not compile", "line 2"]),
        ("latin.jinja", &["latin.jinja", "not UTF-8"]),
        ("base", &["base"]),
        ("", &["is empty"]),
    ] {
        let set = format!("policy.chat_template={file:?}");
        let parts = [&["policy.chat_template"], parts].concat();
        for command in [["train", "sft.toml"], ["train", "grpo.toml"], ["rollout", "grpo.toml"]] {
            scratch.burnish(&[&command[..], &[&set]].concat()).fails_with(&parts);
        }
        assert!(!scratch.path("sft").exists() && !scratch.path("grpo").exists());
    }
}

#[test]
fn a_template_that_changed_is_refused_where_it_is_still_needed() {
    let scratch = base();
    // A run that never saved a checkpoint begins again.
    let train = ["train", "sft.toml", SET, "train.max_steps=1", "eval.tasks=0"];
    scratch.burnish(&train).succeeds();
    std::fs::remove_dir_all(scratch.path("sft/checkpoints")).unwrap();
    scratch.write("chat.jinja", TEMPLATE.replace(':', ";"));
    let resume = ["train", "--resume", "sft"];
    scratch.burnish(&resume).fails_with(&["`policy.chat_template`", "is not what it was"]);
    std::fs::create_dir(scratch.path("moved")).unwrap();
    scratch.write("moved/chat.jinja", TEMPLATE);
    scratch.burnish(&[&resume[..], &["policy.chat_template=moved/chat.jinja"]].concat()).succeeds();

    // All records of an evaluation were played with one template.
    scratch.write("chat.jinja", TEMPLATE);
    let kept = ["eval", "grpo.toml", SET, "--out", "kept"];
    scratch.burnish(&kept).succeeds();
    scratch.write("chat.jinja", TEMPLATE.replace(':', ";"));
    scratch.burnish(&kept).fails_with(&["policy.chat_template"]);
}
