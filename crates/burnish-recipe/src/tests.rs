use super::*;
use burnish_rl::correction::{ProximalSource, WeightLevel};

pub(super) const SMALL: &str = r#"
[run]
dir = "runs/x"
[policy]
path = "models/starter"
[train]
method = "grpo"
max_steps = 3
[env]
id = "countdown"
"#;

/// A recipe that makes a policy by imitation.
pub(crate) const SFT: &str = r#"
[run]
dir = "x"
[policy.new]
architecture = "qwen3"
vocab_size = 320
hidden_size = 64
intermediate_size = 128
num_hidden_layers = 2
num_attention_heads = 4
num_key_value_heads = 2
head_dim = 16
max_position_embeddings = 256
rope_theta = 10000.0
tie_word_embeddings = true
dtype = "bf16"
[env]
id = "countdown"
[[data.demonstrations]]
env = "countdown"
tasks = 8
[train]
method = "sft"
max_steps = 3
"#;

pub(crate) fn read(text: &str, overrides: &[&str]) -> Result<Recipe, String> {
    let overrides: Vec<String> = overrides.iter().map(|s| (*s).to_owned()).collect();
    Source::parse("r.toml", text, &overrides)
        .and_then(|source| Recipe::resolve(&source))
        .map_err(|error| error.to_string())
}

#[test]
fn a_resolved_recipe_reads_back_as_itself() {
    let recipe = read(SMALL, &[]).unwrap();
    let text = recipe.to_toml().unwrap();
    assert_eq!(read(&text, &[]).unwrap(), recipe, "{text}");
}

#[test]
fn parameters_are_frozen_where_a_whole_policy_is_trained_that_was_given() {
    let freeze = "train.freeze=[\"*.q_proj.weight\"]";
    let recipe = read(SMALL, &[freeze]).unwrap();
    assert_eq!(recipe.training().trains, burnish_model::Trains::Except(vec!["*.q_proj.weight".to_owned()]));
    let refused = |text: &str, more: &[&str], reason: &str| {
        let error = read(text, &[&[freeze], more].concat()).unwrap_err();
        assert!(error.contains("train.freeze") && error.contains(reason), "{error}");
    };
    refused(SMALL, &["policy.lora={rank=4,alpha=8}"], "an adapter's base is frozen");
    refused(SFT, &[], "would stay random");
    refused(&SMALL.replace("max_steps = 3\n", ""), &["train.method=none"], "nothing is learned");
}

#[test]
fn control_tokens_in_texts_are_text_unless_the_recipe_says_otherwise() {
    use crate::TextTokens::{AsTransformers, Literal};
    for (set, expected) in [(&[][..], Literal), (&["policy.text_tokens=as_transformers"], AsTransformers)] {
        let recipe = read(SMALL, set).unwrap();
        let found = [recipe.training(), recipe.policy.sampling()].map(|loading| loading.text_tokens);
        assert_eq!(found, [expected; 2]);
        assert_eq!(recipe.to_toml().unwrap().contains("text_tokens"), expected == AsTransformers);
    }
    let error = read(SMALL, &["policy.text_tokens=text"]).unwrap_err();
    assert!(error.contains("policy.text_tokens") && error.contains("as_transformers"), "{error}");
}

#[test]
fn a_device_that_this_program_has_not_is_refused_with_what_to_do() {
    assert_eq!(read(SMALL, &["device=\"cpu\""]).unwrap().device, "cpu");
    for name in ["metal", "gpu", "cuda:one"] {
        let error = read(SMALL, &[&format!("device=\"{name}\"")]).unwrap_err();
        assert!(error.contains("device") && error.contains("cuda:0"), "{error}");
    }
    assert_eq!(read(SMALL, &["device=\"cuda:0\""]).unwrap().device, "cuda:0");
}

#[test]
fn values_out_of_range_name_the_key_and_the_range() {
    for (wrong, key) in [
        ("rollout.temperature=0", "rollout.temperature"),
        ("rollout.group_size=1", "rollout.group_size"),
        ("train.max_steps=0", "train.max_steps"),
        ("train.minibatches=0", "train.minibatches"),
        ("optimizer.learning_rate=-1", "optimizer.learning_rate"),
        ("optimizer.beta2=1", "optimizer.beta2"),
        ("loss.config.epsilon_low=-0.1", "loss.config.epsilon_low"),
        ("checkpoint.keep=0", "checkpoint.keep"),
        ("eval.rollouts=0", "eval.rollouts"),
        ("rollout.cache_mib=0", "rollout.cache_mib"),
        ("rollout.min_tokens=129", "rollout.min_tokens"),
        ("rollout.stop=[\"\"]", "rollout.stop"),
        ("rollout.repetition_penalty=0", "rollout.repetition_penalty"),
        ("rollout.presence_penalty=3", "rollout.presence_penalty"),
        ("rollout.frequency_penalty=-2.1", "rollout.frequency_penalty"),
        ("rollout.frequency_penalty=0.1", "rollout.frequency_penalty"),
        ("eval.top_p=0", "eval.top_p"),
        ("eval.min_p=2", "eval.min_p"),
        ("eval.grammar={regex=\"(a\"}", "eval.grammar"),
        ("rollout.grammar={json_schema={type=\"nothing\"}}", "rollout.grammar"),
        ("rollout.grammar={regex=\"a\"}", "rollout.grammar"),
        ("eval.min_tokens=500", "eval.min_tokens"),
        ("eval.repetition_penalty=-1", "eval.repetition_penalty"),
        ("data.decontaminate.ngram=0", "data.decontaminate.ngram"),
        ("reward.overlong_buffer.length=129", "reward.overlong_buffer.length"),
    ] {
        let error = read(SMALL, &[wrong]).unwrap_err();
        assert!(error.contains(&format!("`{key}`")) && error.contains(wrong), "{wrong}: {error}");
    }
}

#[test]
fn the_weight_of_a_component_that_no_reward_has_is_refused_with_the_nearest() {
    for (wrong, meant) in [
        ("reward.weights={nope=1.0}", "there are: answer"),
        ("reward.weights.anser=1.0", "did you mean `reward.weights.answer`?"),
        ("reward.weights={answer=1.0, overlong=0.5}", "`reward.weights.overlong`"),
    ] {
        let error = read(SMALL, &[wrong]).unwrap_err();
        assert!(error.starts_with(&format!("override `{wrong}`")) && error.contains(meant), "{error}");
    }
    assert!(read(SMALL, &["reward.weights.answer=0.5"]).is_ok());
    assert!(read(SMALL, &["reward.overlong_buffer.length=9", "reward.weights.overlong=0.5"]).is_ok());
    // A component of an extra evaluation's environment counts as known.
    let elsewhere = ["eval.extra=[{name=\"maps\", env=\"mapf-frozenlake\"}]", "reward.weights.plan=0.5"];
    assert!(read(SMALL, &elsewhere).is_ok(), "{:?}", read(SMALL, &elsewhere));
}

#[test]
fn what_the_environment_can_not_do_is_refused_by_the_key_that_asks_for_it() {
    let taught = |context: &str, env: &str| {
        let (context, env) = (format!("teacher.context={context}"), format!("env.id={env}"));
        read(SMALL, &["loss.objective=opd", "loss.beta=0", &context, &env]).map(drop)
    };
    for context in ["skill", "reasoning"] {
        let error = taught(context, "countdown").unwrap_err();
        assert!(error.contains("`teacher.context`") && error.contains("another context"), "{error}");
        assert_eq!(taught(context, "chains"), Ok(()));
    }
    assert_eq!(taught("demonstration", "countdown"), Ok(()));
    let error = read(SMALL, &["plan.plan=dgpo"]).unwrap_err();
    assert!(
        error.contains("`plan.plan`") && error.contains("turned round, which the environment countdown"),
        "{error}"
    );
    assert_eq!(read(SMALL, &["plan.plan=dgpo", "env.id=chains"]).map(drop), Ok(()));
    // Nothing is known of single tokens of answers that are given.
    let given = ["plan.plan=demonstrations", "advantage.estimator=gae", "critic={}"];
    let error = read(SMALL, &given).unwrap_err();
    assert!(error.contains("`gae`, which needs") && error.contains("`demonstrations` gives"), "{error}");
    assert_eq!(read(SMALL, &[&given[..], &["plan.config.count=0"]].concat()).map(drop), Ok(()));
    assert_eq!(read(SMALL, &given[..1]).map(drop), Ok(()));
}

#[test]
fn every_number_that_is_not_finite_is_refused_by_its_key() {
    let recipe = read(SMALL, &["critic={}", "advantage.estimator=gae"]).unwrap().to_toml().unwrap();
    let resolved = serde_json::to_value(read(&recipe, &[]).unwrap()).unwrap();
    let mut numbers = Vec::new();
    collect_numbers("", &resolved, &mut numbers);
    assert!(numbers.len() > 60, "{}", numbers.len());
    for key in numbers {
        for number in ["nan", "inf", "-inf"] {
            let error = read(SMALL, &[&format!("{key}={number}")]).unwrap_err();
            let said =
                format!("override `{key}={number}`: `{key}` is `{number}`, which is not a finite number");
            assert!(error.starts_with(&said), "{error}");
        }
    }
}

fn collect_numbers(path: &str, value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(table) => table.iter().for_each(|(name, value)| {
            let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            collect_numbers(&path, value, found);
        }),
        Value::Number(_) => found.push(path.to_owned()),
        _ => {}
    }
}

#[test]
fn an_id_that_is_nearly_right_is_answered_with_the_right_one() {
    for (wrong, meant) in [
        ("loss.objective=gpso", "gspo"),
        ("advantage.estimator=rlo", "rloo"),
        ("selection.selector=insihgt", "insight"),
        ("loss.aggregation=dap", "dapo"),
        ("optimizer.schedule=cosin", "cosine"),
        ("train.method=grop", "grpo"),
        ("env.id=countdwn", "countdown"),
        ("allow=[\"k1-in-los-uncorrected\"]", "k1-in-loss-uncorrected"),
    ] {
        let error = read(SMALL, &[wrong]).unwrap_err();
        assert!(error.contains(&format!("did you mean `{meant}`?")), "{wrong}: {error}");
    }
}

#[test]
fn settings_that_contradict_each_other_are_refused_by_key() {
    for (wrong, key) in [
        (
            &["loss.beta=0.1", "loss.kl_estimator=k1", "loss.use_bias_correction_kl=false"][..],
            "loss.kl_estimator",
        ),
        (&["loss.beta=0.1", "loss.use_kl_in_reward=true"], "loss.kl_estimator"),
        (&["loss.adaptive_kl.target_kl=0.1"], "loss.adaptive_kl.target_kl"),
        (&["loss.beta=0.1", "loss.adaptive_kl={target_kl=0.1, horizon=25}"], "loss.adaptive_kl.horizon"),
    ] {
        let error = read(SMALL, wrong).unwrap_err();
        assert!(error.contains(&format!("`{key}`")), "{wrong:?}: {error}");
    }
    assert!(read(SMALL, &["loss.beta=0.1", "loss.adaptive_kl={target_kl=0.1, horizon=26}"]).is_ok());
}

#[test]
fn what_penalties_change_is_corrected_for_where_a_recipe_says_so() {
    let penalty = "rollout.repetition_penalty=1.2";
    let error = read(SMALL, &[penalty]).unwrap_err();
    for way_out in ["`rollout.allow_off_policy = true`", "`loss.correction.behavior = \"sampled\"`"] {
        assert!(error.contains(way_out), "{error}");
    }
    let (allowed, sampled) = ("rollout.allow_off_policy=true", "loss.correction.behavior=sampled");
    let weight = "loss.correction.weight.level=token";
    let recipe = read(SMALL, &[penalty, allowed, sampled, weight]).unwrap();
    assert!(recipe.to_toml().unwrap().contains("behavior = \"sampled\""));
    for (wrong, rule) in [
        (&[penalty, allowed, sampled][..], "sampled-behavior-unread"),
        (&[sampled, weight], "sampled-behavior-unaltered"),
    ] {
        let error = read(SMALL, wrong).unwrap_err();
        assert!(error.contains("`loss.correction.behavior`") && error.contains(rule), "{error}");
    }
}

#[test]
fn what_an_engine_samples_is_corrected_for_as_far_as_the_objective_allows() {
    let engine = ["engine.kind=vllm", "engine.urls=[\"http://localhost:8000\"]"];
    let correction = |more: &[&str]| read(SMALL, &[&engine, more].concat()).unwrap().loss.correction;
    let of_tokens = correction(&[]);
    assert_eq!((of_tokens.proximal, of_tokens.weight.level), (ProximalSource::Recompute, WeightLevel::Token));
    // Its loss is of whole sequences.
    let of_sequences = correction(&["loss.objective=gspo", "loss.aggregation=grpo"]);
    assert_eq!(
        (of_sequences.proximal, of_sequences.weight.is_on()),
        (ProximalSource::Recompute, false),
        "{of_sequences:?}"
    );
    // A distillation looks at neither.
    let distilled = correction(&["loss={objective=\"opd\"}", "teacher.path=\"models/starter\""]);
    assert_eq!((distilled.proximal, distilled.weight.is_on()), (ProximalSource::Sampling, false));
    let own = correction(&["loss.correction.proximal=loglinear"]);
    assert_eq!((own.proximal, own.weight.is_on()), (ProximalSource::Loglinear, false));
    assert_eq!(read(SMALL, &[]).unwrap().loss.correction.proximal, ProximalSource::Sampling);
}

#[test]
fn a_recipe_with_the_earlier_name_of_a_proximal_policy_is_the_same_recipe() {
    let now = read(SMALL, &[]).unwrap();
    let earlier = read(SMALL, &["loss.correction.proximal=behavior"]).unwrap();
    assert_eq!(earlier, now);
    let text = now.to_toml().unwrap();
    assert_eq!(earlier.to_toml().unwrap(), text);
    // Keys that were added later are not written at their defaults, so that hashes stay the same.
    assert!(!text.contains("behavior") && !text.contains("proximal"), "{text}");
    let table = "[loss.correction]\n";
    let stored = text.replacen(table, &format!("{table}proximal = \"behavior\"\n"), 1);
    assert_ne!(stored, text);
    assert_eq!(read(&stored, &[]).unwrap(), now);
}

#[test]
fn every_key_of_grpo_is_shown_with_its_default() {
    let text = read(SMALL, &[]).unwrap().to_toml().unwrap();
    for line in [
        "kl_estimator = \"k3\"",
        "use_kl_in_reward = false",
        "mask_truncated_completions = false",
        "[loss.adaptive_kl]",
        "target_kl = 0.0",
        "horizon = 10000.0",
        "[rollout.dynamic_sampling]",
        "max_rounds = 0",
        "[selection]",
        "selector = \"uniform\"",
        "metric = \"reward\"",
        "[reward.overlong_buffer]",
        "length = 0",
        "penalty = 1.0",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
}

#[test]
fn a_selector_is_completed_and_its_keys_are_checked() {
    let text = read(SMALL, &["selection.selector=insight"]).unwrap().to_toml().unwrap();
    for line in ["selector = \"insight\"", "weight = \"additive\"", "pool_factor = 16", "decay = 1.0"] {
        assert!(text.contains(line), "{line}: {text}");
    }
    for (wrong, key) in [
        ("selection.selector=insihgt", "selection.selector"),
        ("selection={selector=\"insight\", config={eta=-1.0}}", "selection.config.eta"),
        ("selection={selector=\"mopps\", config={beliefs={decay=2.0}}}", "selection.config.beliefs.decay"),
        ("selection={selector=\"mopps\", config={etaa=1.0}}", "selection.config.etaa"),
        ("selection.pool=3", "selection.pool"),
    ] {
        let error = read(SMALL, &[wrong]).unwrap_err();
        assert!(error.contains(&format!("`{key}`")), "{wrong}: {error}");
    }
}

#[test]
fn errors_inside_the_environments_own_table_name_the_whole_path() {
    let text = format!("{SMALL}[env.config]\nnumber = 3\n");
    let error = read(&text, &[]).unwrap_err();
    assert!(error.contains("`env.config.number` is not a known key"), "{error}");
    assert!(error.contains("did you mean `numbers`?"), "{error}");
    assert!(error.contains("env.config") && error.contains("number"), "{error}");
    let error = read(SMALL, &["env.id=countdwn"]).unwrap_err();
    assert!(error.contains("countdown"), "{error}");
}

#[test]
fn a_policy_is_given_exactly_once() {
    let error = read(&SMALL.replace("path = \"models/starter\"", ""), &[]).unwrap_err();
    assert!(error.contains("policy.path") && error.contains("policy.from"), "{error}");
    let both = read(SMALL, &["policy.from=recipes/sft.toml"]).unwrap_err();
    assert!(both.contains("`policy.from` excludes `policy.path`"), "{both}");
}

#[test]
fn the_recipe_that_makes_the_policy_is_a_path_or_a_table_and_reads_back_as_itself() {
    let text = SMALL.replace("path = \"models/starter\"", "from = \"sft.toml\"");
    let short = read(&text, &[]).unwrap();
    assert_eq!(short.policy.from.as_ref().unwrap().recipe, PathBuf::from("sft.toml"));
    assert_eq!(short.run.cache, PathBuf::from("runs/cache"));
    let long = read(&text, &["policy.from={recipe=\"sft.toml\", set=[\"run.seed=2\"]}"]).unwrap();
    assert_eq!(long.policy.from.as_ref().unwrap().set, ["run.seed=2"]);
    for recipe in [short, long] {
        assert_eq!(read(&recipe.to_toml().unwrap(), &[]).unwrap(), recipe);
    }
    let error = read(&text, &["policy.from={recipe=\"sft.toml\", sets=[]}"]).unwrap_err();
    assert!(error.contains("`policy.from.sets` is not a known key") && error.contains("`set`"), "{error}");
    assert!(read(&text, &["policy.from=3"]).unwrap_err().contains("a recipe file, or a table"));
}

#[test]
fn numbers_are_written_with_the_digits_that_they_were_given() {
    let recipe =
        read(SMALL, &["rollout.temperature=0.8", "eval.top_p=0.95", "optimizer.learning_rate=1e-3"]).unwrap();
    let text = recipe.to_toml().unwrap();
    for line in ["temperature = 0.8\n", "top_p = 0.95\n", "learning_rate = 0.001\n"] {
        assert!(text.contains(line), "{line}: {text}");
    }
    assert_eq!(read(&text, &[]).unwrap(), recipe);
}

#[test]
fn a_grammar_of_training_alone_is_told() {
    let grammar = "rollout.grammar={regex=\"[a-z]+\"}";
    let off = "rollout.allow_off_policy=true";
    let told = |changes: &[&str]| {
        read(SMALL, changes).unwrap().warnings().iter().any(|line| line.contains("eval.grammar"))
    };
    assert!(told(&[grammar, off]) && !told(&[grammar, off, "eval.grammar={regex=\"[a-z]+\"}"]) && !told(&[]));
}

#[test]
fn spans_that_only_verdicts_reward_need_an_estimator_that_pays_tokens() {
    let span = "spans=[{name=\"thoughts\", end=\"</think>\"}]";
    let error = read(SMALL, &[span]).unwrap_err();
    assert!(error.contains("`thoughts`, which has no use") && error.contains("`gae`"), "{error}");
    let paid = ["critic={}", "advantage.estimator=gae", span];
    assert_eq!(read(SMALL, &paid).unwrap().spans.len(), 1);
}
