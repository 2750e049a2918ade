//! What of a row or an episode is learned.

use std::collections::BTreeSet;

use std::path::Path;

use burnish_core::{Role, Sampling};
use burnish_engine::Limits;
use burnish_env::rollout::{self, Overlong, RolloutSpec, SeedPlace, Spawn};
use burnish_model::{ChatTemplate, TextTokens};
use serde_json::json;

use super::rows::imitated;
use super::*;
use crate::policy::LoadedPolicy;
use burnish_recipe::Source;

const RECIPE: &str = r#"
    run.dir = "x"
    train = { method = "sft", max_steps = 1 }
    env.id = "household"
    [policy.new]
    architecture = "qwen3"
    vocab_size = 300
    hidden_size = 8
    intermediate_size = 8
    num_hidden_layers = 1
    num_attention_heads = 1
    num_key_value_heads = 1
    head_dim = 8
    max_position_embeddings = 512
    rope_theta = 10000.0
    tie_word_embeddings = true
    dtype = "bf16"
    [[data.demonstrations]]
    env = "household"
    tasks = 8
"#;

#[test]
fn stages_follow_the_steps_and_some_samples_come_from_before() {
    let latent = "run.dir = \"x\"\nlatent = { unit = \"[a-z]+ \", units_max = 3, earlier = 0.25 }";
    let recipe = RECIPE.replace("run.dir = \"x\"", latent).replace("max_steps = 1", "max_steps = 400");
    let recipe = Recipe::resolve(&Source::parse("r.toml", &recipe, &[]).unwrap()).unwrap();
    let (corpus, _) = Corpus::open(&recipe, &BTreeSet::new(), None).unwrap();
    let texts = corpus.texts(None).unwrap();
    let shape = recipe.policy.new.as_ref().unwrap();
    let chat = LoadedPolicy::create(shape, &texts, 1, &burnish_core::LATENT_TOKENS).unwrap().chat;
    let curriculum = Curriculum::of(&recipe, &chat).unwrap().unwrap();
    let stages = |step: u64| -> Vec<usize> {
        (0..400).map(|sample| curriculum.stage(&recipe, step, sample)).collect()
    };
    assert!(stages(0).iter().all(|stage| *stage == 0));
    let last = stages(399);
    assert_eq!(last, stages(399));
    assert_ne!(last, stages(398));
    let share = |stage: usize| last.iter().filter(|own| **own == stage).count() as f64 / 400.0;
    assert!((share(3) - 0.75).abs() < 0.07, "{}", share(3));
    assert!((0..3).all(|stage| (share(stage) - 0.25 / 3.0).abs() < 0.05));
    // Without the tokens there is nothing to learn them by.
    let without = LoadedPolicy::create(shape, &texts, 1, &[]).unwrap().chat;
    assert!(Curriculum::of(&recipe, &without).unwrap_err().to_string().contains("<latent>"));
}

#[test]
fn of_a_demonstrated_episode_every_answer_is_learnt_and_nothing_that_the_environment_says() {
    let recipe = Recipe::resolve(&Source::parse("r.toml", RECIPE, &[]).unwrap()).unwrap();
    let (corpus, _) = Corpus::open(&recipe, &BTreeSet::new(), None).unwrap();
    let shape = recipe.policy.new.as_ref().unwrap();
    let chat = LoadedPolicy::create(shape, &corpus.texts(None).unwrap(), 1, &[]).unwrap().chat;
    assert_eq!(corpus.len(), 8);
    for conversation in 0..corpus.len() {
        let Given::Conversation { messages, .. } = corpus.get(conversation).unwrap() else { panic!() };
        let roles: Vec<Role> = messages.iter().map(|message| message.role).collect();
        assert!(roles.len() >= 4 && roles.chunks(2).all(|pair| pair == [Role::User, Role::Assistant]));
        let samples = imitated(&corpus, &chat, conversation, None).unwrap();
        assert_eq!(samples.len(), 1, "the episode is one sample");
        let scored: Vec<u32> = samples[0].scored().map(|at| samples[0].ids[at]).collect();
        let answers = messages.iter().filter(|message| message.role == Role::Assistant);
        let wanted: String = answers.map(|message| message.content.clone() + "<|im_end|>").collect();
        assert_eq!(chat.tokenizer.decode(&scored, false).unwrap(), wanted);
    }
}

#[test]
fn of_an_episode_with_tools_the_calls_are_learnt_and_the_tokenizer_knows_their_words() {
    let text = RECIPE.replace("household", "accounts").replace("vocab_size = 300", "vocab_size = 500");
    let recipe = Recipe::resolve(&Source::parse("r.toml", &text, &[]).unwrap()).unwrap();
    let (corpus, _) = Corpus::open(&recipe, &BTreeSet::new(), None).unwrap();
    let template = include_str!("../../../../recipes/templates/tools.jinja");
    let template = ChatTemplate::new(template, Path::new("tools.jinja")).unwrap();
    let texts = corpus.texts(Some(&template)).unwrap();
    assert!(texts.iter().any(|text| text.contains("\"transfer\"")));
    assert!(!texts.iter().any(|text| text.contains("<|im_")), "special tokens are not learnt as text");
    let shape = recipe.policy.new.as_ref().unwrap();
    let policy = LoadedPolicy::create(shape, &texts, 1, &[])
        .unwrap()
        .with_template(Some(template), TextTokens::Literal);
    assert_eq!(policy.chat.tokenizer.encode("transfer").unwrap().len(), 1);
    for conversation in 0..corpus.len() {
        let samples = imitated(&corpus, &policy.chat, conversation, None).unwrap();
        assert_eq!(samples.len(), 1, "the episode is one sample");
        let scored: Vec<u32> = samples[0].scored().map(|at| samples[0].ids[at]).collect();
        let learnt = policy.chat.tokenizer.decode(&scored, false).unwrap();
        assert!(learnt.starts_with("<tool_call>") && learnt.ends_with("done<|im_end|>"), "{learnt}");
        assert!(!learnt.contains("ok"), "a tool's result is not learnt: {learnt}");
    }
}

/// A template that says which tools there are.
const WITH_TOOLS: &str = "{% for tool in tools or [] %}<tool>{{ tool | tojson }}\n{% endfor %}\
    {% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}\
    {% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

#[test]
fn of_a_row_with_tools_a_rollout_reads_what_is_imitated_after() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.jsonl");
    let tool = |name: &str| json!({"name": name, "description": "Does it.", "parameters": {"type": "object", "properties": {}}});
    let row = |ask: &str, tools: serde_json::Value| {
        json!({"prompt": ask, "completion": "yes", "answer": "yes", "tools": tools}).to_string() + "\n"
    };
    let rows = [
        row("Two?", json!([tool("add"), {"type": "function", "function": tool("wait")}])),
        row("None?", json!(null)),
        row("As text?", json!(json!([tool("look")]).to_string())),
    ];
    std::fs::write(&path, rows.concat()).unwrap();
    let text = format!(
        "run.dir = \"x\"\ntrain = {{ method = \"sft\", max_steps = 1 }}\nenv.id = \"household\"\n\
         [data]\npath = {path:?}\n[[data.demonstrations]]\nenv = \"rows\"\ntasks = 3\n\
         [data.demonstrations.config]\npath = {path:?}\nverifier = \"exact\"\n{}",
        RECIPE[RECIPE.find("[policy.new]").unwrap()..].split("[[data").next().unwrap()
    );
    let recipe = Recipe::resolve(&Source::parse("r.toml", &text, &[]).unwrap()).unwrap();
    let (corpus, _) = Corpus::open(&recipe, &BTreeSet::new(), None).unwrap();
    let shape = recipe.policy.new.as_ref().unwrap();
    let policy = LoadedPolicy::create(shape, &corpus.texts(None).unwrap(), 1, &[]).unwrap();
    let template = ChatTemplate::new(WITH_TOOLS, Path::new("tools.jinja")).unwrap();
    let policy = policy.with_template(Some(template), TextTokens::Literal);

    let set = &recipe.data.demonstrations[0];
    let generator = burnish_env::build(&set.env, &set.config).unwrap();
    let mut tasks = generator.tasks(1, 3).unwrap().tasks;
    tasks.sort_by_key(|task| rows.iter().position(|row| row.contains(&task.prompt[0].content)));
    let seeds = SeedPlace { run: 1, stage: 0, step: 0, task_offset: 0 };
    let spawns = Spawn::of_tasks(&tasks, 1, &Sampling::greedy(2), seeds);
    let overlong = Overlong::Refuse;
    let spec = RolloutSpec::new(&*generator, &spawns, 1, overlong);
    let mut local = policy.sampler(0, Limits::default());
    let episodes = rollout::play(&mut local, &spec).unwrap();
    assert_eq!((episodes.len(), corpus.len()), (3, 6), "three rows, and three again as demonstrations");
    let prompts: Vec<Vec<u32>> = (0..corpus.len())
        .map(|conversation| {
            let sample = imitated(&corpus, &policy.chat, conversation, None).unwrap().remove(0);
            let first = sample.scored().next().unwrap();
            sample.ids[..first].to_vec()
        })
        .collect();
    for (at, episode) in episodes.iter().enumerate() {
        let unsampled = episode.traces[0].nodes().iter().filter(|node| node.sampled.is_none());
        let read: Vec<u32> = unsampled.flat_map(|node| node.ids.clone()).collect();
        assert_eq!(read, prompts[at]);
        let prompt = policy.chat.tokenizer.decode(&read, false).unwrap();
        assert_eq!(prompt.matches("<tool>").count(), [2, 0, 1][at], "{prompt}");
        assert!(prompts[3..].contains(&read), "a demonstration has the tools, too");
    }
}
