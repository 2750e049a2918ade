//! `burnish eval --strategy`: a strategy beside the plain policy and beside the majority at the same number of tokens.

use crate::common::{CHAINS, Scratch};
use crate::test_server::{Reply, question, said, serve};
use serde_json::{Value, json};

const STARTER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/starter");

fn lines(scratch: &Scratch, file: &str) -> Vec<Value> {
    let text = String::from_utf8(scratch.read(file)).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// A small HeavySkill whose prompts fit the tiny policy's context.
const HEAVY: &str = "heavyskill:drafts=3,deliberations=2,equality=number,template=\"{prompt}\\n{drafts}{prompt}\",\
                     draft=\"{draft}\\n\"";

fn arguments<'a>(strategy: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let fixed = ["eval", "grpo.toml", "policy.path=tiny/checkpoints/step_40", CHAINS, "eval.temperature=1.0"];
    let own = ["eval.tasks=12", "rollout.tokens_max=24", "--strategy", strategy];
    [&fixed[..], &own, more].concat()
}

/// Tokens of the turns of a sample.
fn tokens(sample: &Value) -> u64 {
    let turns = sample["turns"].as_array().unwrap();
    turns
        .iter()
        .map(|turn| turn["tokens"]["generated"].as_u64().unwrap() + turn["tokens"]["read"].as_u64().unwrap())
        .sum()
}

#[test]
fn every_strategy_stands_beside_the_plain_policy_and_beside_majority_at_its_tokens() {
    let scratch = Scratch::with_policy_of_chains();
    let plain = ["eval", "grpo.toml", "policy.path=tiny/checkpoints/step_40", CHAINS, "eval.temperature=1.0"];
    let plain = [&plain[..], &["eval.tasks=12", "rollout.tokens_max=24", "--json"]].concat();
    let plain = parsed(&scratch.burnish(&plain).succeeds().stdout());
    for strategy in [
        "best_of_n:samples=4",
        "best_of_n:samples=2,score.by=judge",
        "beam:width=3,keep=2",
        "majority:samples=5,equality=number",
        "weighted_vote:samples=4,equality=number",
        "self_refine:template=\"{prompt}\\n{drafts}{prompt}\",draft=\"{draft}\\n\"",
        HEAVY,
    ] {
        let found =
            parsed(&scratch.burnish(&arguments(strategy, &["--json", "--out", "kept"])).succeeds().stdout());
        let row = |arm: &str| found["rows"].as_array().unwrap().iter().find(|row| row["arm"] == arm).unwrap();
        // The plain arm is what `burnish eval` finds.
        assert_eq!(row("plain")["summary"]["success"], plain["success"], "{strategy}");
        assert_eq!(row("plain")["turns"], json!(1.0), "{strategy}");
        assert_eq!(found["is_counted"], json!(true));
        for key in ["over_plain", "over_majority"] {
            assert!(row("strategy")[key]["success"]["low"].is_number(), "{strategy} {found}");
        }
        let records = lines(&scratch, "kept/items.jsonl");
        assert_eq!(records.len(), 12);
        for record in &records {
            let [plain, own, majority] = [0, 1, 2].map(|arm| &record["arms"][arm]["samples"][0]);
            assert!(tokens(majority) >= tokens(own) && tokens(own) >= tokens(plain), "{strategy}");
            let turn = &own["turns"][0];
            let chosen = &turn["candidates"][turn["chosen"].as_u64().unwrap() as usize];
            assert_eq!(own["played"]["answers"][0], chosen["message"], "{strategy}");
            // What was judged afterwards agrees with what the environment said of the answer.
            let is_right = &own["is_right"][turn["chosen"].as_u64().unwrap() as usize];
            assert_eq!(*is_right, json!(own["played"]["outcome"] == "success"), "{strategy}");
            assert_eq!(
                turn["selections"].as_array().unwrap().last().unwrap()["chosen"],
                json!([turn["chosen"]])
            );
        }
        let rates = &found["rates"];
        let number = |key: &str| rates[key].as_f64().unwrap();
        let sum = number("hm") - number("vote") - (number("rectified") - number("regressed"));
        assert!(sum.abs() < 1e-12 && number("any") >= number("mean"), "{strategy} {rates}");
        std::fs::remove_dir_all(scratch.path("kept")).unwrap();
    }
}

#[test]
fn a_comparison_goes_on_where_it_was_stopped_and_says_what_it_found() {
    let scratch = Scratch::with_policy_of_chains();
    let keep = arguments(HEAVY, &["rollout.batch_max=1", "--out", "kept"]);
    let shown = scratch.burnish(&keep).succeeds().stdout();
    for part in
        ["plain", "heavyskill", "majority", "over majority", "M@3", "HM@2", "rectified", "records  kept"]
    {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let (items, found) = (scratch.read("kept/items.jsonl"), scratch.read("kept/summary.json"));
    let ends: Vec<usize> =
        items.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1).collect();
    for cut in [0, ends[4], ends[5] + 7] {
        scratch.write("kept/items.jsonl", &items[..cut]);
        std::fs::remove_file(scratch.path("kept/summary.json")).unwrap();
        scratch.burnish(&keep).succeeds();
        assert!(
            scratch.read("kept/items.jsonl") == items && scratch.read("kept/summary.json") == found,
            "{cut}"
        );
    }
    let other = arguments("majority:samples=3", &["rollout.batch_max=1", "--out", "kept"]);
    scratch.burnish(&other).fails_with(&["holds an evaluation with other settings", "strategy"]);
}

#[test]
fn what_makes_no_sense_is_named_before_anything_runs() {
    let scratch = Scratch::with_policy_of_chains();
    let refused = |strategy: &str, more: &[&str], parts: &[&str]| {
        let more = [more, &["--out", "none"]].concat();
        scratch.burnish(&arguments(strategy, &more)).fails_with(parts);
        assert!(!scratch.path("none").exists(), "{strategy}");
    };
    refused("majorty", &[], &["did you mean `majority`?"]);
    refused("majority:sampels=3", &[], &["sampels"]);
    refused("majority:samples=0", &[], &["config.samples", "1 to"]);
    refused("no-such-file.toml", &[], &["no-such-file.toml"]);
    refused("heavyskill:skill=no.md", &[], &["skill", "no.md"]);
    refused("majority", &["eval.temperature=0"], &["--strategy", "temperature", "8 answers"]);
    refused("heavyskill:judge=tiny", &[], &["judge", "score.by"]);
    refused("heavyskill:deliberator=nowhere", &[], &["nowhere"]);
    refused("majority", &["plan.plan=skpo", "advantage.estimator=skpo", "eval.draft=true"], &["eval.draft"]);
    scratch.write("own.toml", "strategy = \"majority\"\n[config]\nsamples = 2\nextra = 1\n");
    refused("own.toml", &[], &["extra"]);
}

/// Rows whose gold is right or garbage.
fn rows(scratch: &Scratch, name: &str, gold: impl Fn(usize) -> String) {
    let row =
        |at: usize| format!("{}\n", json!({"prompt": format!("What is {at} + 1?"), "answer": gold(at)}));
    scratch.write(&format!("{name}.jsonl"), (0..10).map(row).collect::<String>());
    scratch.write(
        &format!("{name}.toml"),
        format!(
            "[run]\ndir = \"x\"\n[policy]\npath = {STARTER:?}\n[train]\nmethod = \"grpo\"\nmax_steps = 1\n[env]\nid = \"rows\"\n\
             config = {{ path = \"{name}.jsonl\", verifier = \"number\" }}\n[rollout]\ntokens_max = 12\n[eval]\ntasks = 10\n\
             temperature = 1.0\n"
        ),
    );
}

#[test]
fn no_selection_reads_the_gold() {
    let scratch = Scratch::new();
    rows(&scratch, "right", |at| (at + 1).to_string());
    rows(&scratch, "garbage", |at| (7_000 + 13 * at).to_string());
    with_reward_model(&scratch);
    for strategy in [
        "best_of_n:samples=3",
        "best_of_n:samples=3,score.by=reward_model,score.path=rm",
        "best_of_n:samples=2,score={by=\"judge\",tokens_max=3}",
        "beam:width=3,score={by=\"judge\",tokens_max=3}",
        "majority:samples=4",
        "weighted_vote:samples=4",
        "self_refine:template=\"{prompt} {drafts}\",draft=\"{draft} \"",
        "heavyskill:pool=5,selection=max_diversity,drafts=3,deliberations=2,template=\"{prompt} {drafts}\",draft=\"{draft} \"",
    ] {
        // By prompt: the order of tasks may depend on their content.
        let turns = |name: &str| {
            let (recipe, out) = (format!("{name}.toml"), format!("{name}.out"));
            let arguments = ["eval", &recipe, "--strategy", strategy, "--out", &out];
            scratch.burnish(&arguments).succeeds();
            let mut records = lines(&scratch, &format!("{out}/items.jsonl"));
            std::fs::remove_dir_all(scratch.path(&out)).unwrap();
            records.sort_by_key(|record| record["prompt"].to_string());
            let turns = |record: &Value| {
                let samples =
                    record["arms"].as_array().unwrap().iter().map(|arm| arm["samples"][0]["turns"].clone());
                json!({"prompt": record["prompt"], "turns": samples.collect::<Vec<_>>()})
            };
            records.iter().map(turns).collect::<Vec<Value>>()
        };
        let (right, garbage) = (turns("right"), turns("garbage"));
        assert_eq!(right.len(), 10);
        let asked =
            |arms: &Value| arms.as_array().unwrap().iter().all(|turns| !turns[0]["candidates"].is_null());
        assert!(right.iter().all(|record| asked(&record["turns"])), "{strategy}");
        assert!(right == garbage, "{strategy}");
    }
}

/// Trains a reward model in `rm` for a little while: the more of an answer is `up`, the better.
fn with_reward_model(scratch: &Scratch) {
    let pair = |at: usize| {
        let (better, worse) = (vec!["up"; 1 + at % 4].join(" "), vec!["down"; 1 + at % 3].join(" "));
        format!("{}\n", json!({"prompt": format!("move {at}"), "chosen": better, "rejected": worse}))
    };
    scratch.write("pairs.jsonl", (0..32).map(pair).collect::<String>());
    let recipe = format!(
        "run.dir = \"rm\"\npolicy.path = {STARTER:?}\n[train]\nmethod = \"reward\"\nmax_steps = 4\nsequences_per_step = 8\n\
         [data]\npath = \"pairs.jsonl\"\n[optimizer]\nlearning_rate = 1e-3\n"
    );
    scratch.write("rm.toml", recipe);
    scratch.burnish(&["train", "rm.toml"]).succeeds();
}

/// Ranked by the reward model in `rm`.
const RANKED: &str = "score.by=reward_model,score.path=rm";

#[test]
fn a_reward_model_ranks_answers_by_what_it_gives_episodes() {
    let scratch = Scratch::new();
    rows(&scratch, "right", |at| (at + 1).to_string());
    with_reward_model(&scratch);
    let recipe = String::from_utf8(scratch.read("right.toml")).unwrap();
    scratch.write("judged.toml", format!("{recipe}[reward.model]\npath = \"rm\"\n"));
    for name in ["best_of_n", "weighted_vote"] {
        let strategy = format!("{name}:samples=4,{RANKED}");
        scratch.burnish(&["eval", "judged.toml", "--strategy", &strategy, "--out", name]).succeeds();
        let records = lines(&scratch, &format!("{name}/items.jsonl"));
        assert_eq!(records.len(), 10);
        let mut all = Vec::new();
        for record in &records {
            let [plain, own] = [0, 1].map(|arm| &record["arms"][arm]["samples"][0]);
            let turn = &own["turns"][0];
            let candidates = turn["candidates"].as_array().unwrap();
            let (drafts, grades) = candidates.split_at(4);
            let selection = &turn["selections"][0];
            let scores: Vec<f64> =
                selection["scores"].as_array().unwrap().iter().map(|score| score.as_f64().unwrap()).collect();
            assert_eq!((grades.len(), scores.len()), (4, 4));
            let count = |of: &Value, key: &str| of["tokens"][key].as_u64().unwrap();
            for (at, (draft, grade)) in drafts.iter().zip(grades).enumerate() {
                assert_eq!((&grade["role"], &grade["number"]), (&json!("grade"), &json!(at)));
                let said = grade["message"]["content"].as_str().unwrap();
                assert_eq!(said.parse(), Ok(scores[at]));
                // It reads the whole conversation, and says nothing in tokens.
                let whole = count(draft, "read") + count(draft, "generated");
                assert_eq!((count(grade, "read"), count(grade, "generated")), (whole, 0));
            }
            let read: u64 = candidates.iter().map(|candidate| count(candidate, "read")).sum();
            assert_eq!((count(turn, "read"), turn["is_counted"].as_bool()), (read, Some(true)));
            // `[reward.model]` judged the episodes. The first draft is the plain answer.
            let chosen = turn["chosen"].as_u64().unwrap() as usize;
            let given =
                |sample: &Value| sample["played"]["verdict"]["rewards"]["reward_model"].as_f64().unwrap();
            for (score, given) in [(scores[0], given(plain)), (scores[chosen], given(own))] {
                assert!((score - given).abs() < 1e-4, "{name}: {score}, as a reward {given}");
            }
            if name == "best_of_n" {
                assert!(scores.iter().all(|score| *score <= scores[chosen]), "{scores:?} {chosen}");
            }
            assert!(drafts.iter().any(|draft| draft["message"] != drafts[0]["message"]));
            all.extend(scores);
        }
        all.sort_by(f64::total_cmp);
        assert!(all[all.len() - 1] - all[0] > 0.1, "{name}: {all:?}");
    }
    // The same command goes on, and another reward model in the same place is another evaluation.
    let strategy = format!("best_of_n:samples=4,{RANKED}");
    let again = ["eval", "judged.toml", "--strategy", &strategy, "--out", "best_of_n"];
    scratch.burnish(&again).succeeds();
    scratch.burnish(&["train", "rm.toml", "run.dir=rm2", "run.seed=7"]).succeeds();
    let other = "best_of_n:samples=4,score.by=reward_model,score.path=rm2";
    let other = ["eval", "judged.toml", "--strategy", other, "--out", "best_of_n"];
    scratch.burnish(&other).fails_with(&["holds an evaluation with other settings", "reward_model"]);
    // Prompts are answered by it as well.
    let prompts = ["generate", STARTER, "--file", "right.jsonl", "--temperature", "1", "--max-tokens", "12"];
    scratch.burnish(&[&prompts[..], &["--strategy", &strategy]].concat()).succeeds();
}

#[test]
fn a_reward_model_that_can_not_rank_is_refused_by_its_key() {
    let scratch = Scratch::new();
    rows(&scratch, "right", |at| (at + 1).to_string());
    with_reward_model(&scratch);
    let refused = |strategy: &str, more: &[&str], parts: &[&str]| {
        let ask = ["eval", "right.toml", "--out", "none", "--strategy", strategy];
        scratch.burnish(&[&ask[..], more].concat()).fails_with(parts);
        assert!(!scratch.path("none").exists(), "{strategy}");
    };
    refused("best_of_n:score.by=reward_model", &[], &["config.score.path", "must name the reward model"]);
    refused("best_of_n:score.path=rm", &[], &["config.score.path", "by = \"reward_model\""]);
    refused("best_of_n:score.by=reward_model,score.path=nowhere", &[], &["config.score.path", "nowhere"]);
    let logits = format!("best_of_n:score.by=reward_model,score.path='{STARTER}'");
    refused(&logits, &[], &["config.score.path", "model with logits"]);
    let ranked = format!("best_of_n:{RANKED}");
    let server = ["--policy", "http://127.0.0.1:1/v1", "--model", "served"];
    refused(&ranked, &server, &["--strategy", "config.score.by", "reads tokens"]);
    // Another tokenizer: two tokens have each other's ids.
    std::fs::create_dir(scratch.path("other")).unwrap();
    for entry in std::fs::read_dir(scratch.path("rm/checkpoints/step_4")).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            std::fs::copy(&path, scratch.path("other").join(path.file_name().unwrap())).unwrap();
        }
    }
    let mut tokenizer: Value = serde_json::from_slice(&scratch.read("other/tokenizer.json")).unwrap();
    let vocab = tokenizer["model"]["vocab"].as_object_mut().unwrap();
    let (a, b) = (vocab["a"].clone(), vocab["b"].clone());
    vocab.insert("a".into(), b);
    vocab.insert("b".into(), a);
    scratch.write("other/tokenizer.json", tokenizer.to_string());
    let other = "best_of_n:score.by=reward_model,score.path=other";
    refused(other, &[], &["config.score.path", "another tokenizer"]);
}

#[test]
fn a_user_of_a_recipe_answers_by_what_a_reward_model_ranks_highest() {
    let scratch = Scratch::new();
    with_reward_model(&scratch);
    let recipe = |score: &str| {
        format!(
            "[run]\ndir = \"run\"\n[policy]\npath = {STARTER:?}\n[train]\nmethod = \"grpo\"\nmax_steps = 1\n[env]\nid = \"orders\"\n\
             [rollout]\ntokens_max = 8\nturns_max = 2\n[eval]\ntasks = 2\n[user]\npath = {STARTER:?}\ntemperature = 1.0\n\
             tokens_max = 6\nstrategy = {{ strategy = \"best_of_n\", config = {{ samples = 3, score = {score} }} }}\n"
        )
    };
    scratch.write("user.toml", recipe("{ by = \"reward_model\", path = \"rm\" }"));
    scratch.burnish(&["eval", "user.toml"]).succeeds();
    for (score, part) in [
        ("{ by = \"reward_model\", path = \"nowhere\" }", "nowhere"),
        ("{ by = \"reward_model\" }", "must name the reward model"),
    ] {
        scratch.write("user.toml", recipe(score));
        scratch.burnish(&["eval", "user.toml"]).fails_with(&["user.strategy.config.score.path", part]);
    }
}

/// Answers with a number that the seed decides; a prompt with attempts gets the first attempt's.
fn answered(_: usize, asked: &Value) -> Reply {
    let text = question(asked);
    match text.split_once("The answer is ") {
        Some((_, rest)) => said(&format!(
            "The answer is {}.",
            rest.chars().take_while(char::is_ascii_digit).collect::<String>()
        )),
        None => said(&format!("The answer is {}.", 1 + asked["seed"].as_u64().unwrap_or(0) % 3)),
    }
}

#[test]
fn a_server_answers_by_a_strategy_and_its_tokens_are_estimated() {
    let scratch = Scratch::new();
    rows(&scratch, "right", |at| (at + 1).to_string());
    let (url, sent) = serve(answered);
    let ask = [
        "eval",
        "right.toml",
        "--policy",
        &url,
        "--model",
        "served",
        "--strategy",
        "heavyskill:drafts=2,deliberations=1",
    ];
    let shown = scratch.burnish(&ask).succeeds().stdout();
    assert!(shown.contains("four characters count as one") && shown.contains("heavyskill"), "{shown}");
    let sent = sent.lock().unwrap().clone();
    let deliberations = sent.iter().filter(|asked| question(asked).contains("### Attempt 2")).count();
    assert_eq!(deliberations, 10);
    // Log-probs are not to be had there.
    let ask = ["eval", "right.toml", "--policy", &url, "--model", "served", "--strategy", "best_of_n"];
    scratch.burnish(&ask).fails_with(&["--strategy", "log-probs", "judge"]);
    // A judge and a deliberator may be servers as well.
    let judge = format!("best_of_n:samples=2,score.by=judge,judge={{url=\"{url}\",model=\"judge\"}}");
    scratch.burnish(&["eval", "right.toml", "--strategy", &judge]).succeeds();
}

#[test]
fn controlled_thoughts_stand_beside_free_ones_with_what_probes_cost() {
    let scratch = Scratch::with_policy_of_chains();
    let spent = |strategy: &str| {
        let found = parsed(&scratch.burnish(&arguments(strategy, &["--json"])).succeeds().stdout());
        let rows = found["rows"].as_array().unwrap();
        ["plain", "strategy"].map(|arm| rows.iter().find(|row| row["arm"] == arm).unwrap().clone())
    };
    let [plain, free] = spent("controlled");
    for key in ["read", "generated", "summary"] {
        assert_eq!(plain[key], free[key], "{key}");
    }
    // Steps end with line breaks, and a probe reads `=` and samples.
    let controls =
        r#"controls=[{certainty={threshold=0.999,delimiter="\n",probe="=",tokens=3,words=["9"]}}]"#;
    let [plain, probed] = spent(&format!("controlled:open=\"\",{controls}"));
    let read = |row: &serde_json::Value| row["read"].as_f64().unwrap();
    assert!(read(&probed) >= read(&plain) + 2.0, "{plain} {probed}");
    let wrong = arguments("controlled:controls=[{certainty={threshold=2}}]", &[]);
    scratch.burnish(&wrong).fails_with(&["config.controls", "certainty.threshold"]);
}

#[test]
fn a_benchmark_is_played_by_a_strategy() {
    let scratch = Scratch::new();
    let row = |n: usize| {
        let row = json!({"question": format!("Anna has {n} pens and buys 2 more. How many has she?"),
                         "answer": format!("{n} + 2 = {}\n#### {}", n + 2, n + 2)});
        format!("{row}\n")
    };
    scratch.write("sums.jsonl", (0..8).map(row).collect::<String>());
    let fixed =
        ["eval", "gsm8k", "--data", "sums.jsonl", "--policy", STARTER, "--tokens-max", "12", "--batch", "4"];
    let own = [&fixed[..], &["--strategy", "majority:samples=3,temperature=0.9", "--out", "kept"]].concat();
    let shown = scratch.burnish(&own).succeeds().stdout();
    assert!(shown.contains("majority") && shown.contains("over plain") && shown.contains("M@3"), "{shown}");
    let (items, found) = (scratch.read("kept/items.jsonl"), scratch.read("kept/summary.json"));
    assert_eq!(lines(&scratch, "kept/items.jsonl").len(), 8);
    scratch.write("kept/items.jsonl", &items[..items.len() / 2]);
    scratch.burnish(&own).succeeds();
    assert!(scratch.read("kept/items.jsonl") == items && scratch.read("kept/summary.json") == found);
    let greedy = [&fixed[..], &["--strategy", "majority"]].concat();
    scratch.burnish(&greedy).fails_with(&["--strategy", "temperature", "8 answers"]);
}

#[test]
fn prompts_are_answered_by_a_strategy_as_a_teacher_would() {
    let scratch = Scratch::new();
    rows(&scratch, "right", |at| (at + 1).to_string());
    let fixed =
        ["generate", STARTER, "--file", "right.jsonl", "--temperature", "1", "--max-tokens", "12", "--json"];
    let answers = |strategy: &[&str]| -> Vec<Value> {
        let said = scratch.burnish(&[&fixed[..], strategy].concat()).succeeds().stdout();
        said.lines().map(parsed).collect()
    };
    let (plain, one) = (answers(&[]), answers(&["--strategy", "majority:samples=1"]));
    assert_eq!(plain.len(), 10);
    assert_eq!(plain, one, "one candidate is the plain answer, to the bit");
    let voted = answers(&["--strategy", "majority:samples=6,equality=number"]);
    assert!(
        voted != plain
            && voted == answers(&["--strategy", "majority:samples=6,equality=number", "--batch", "1"])
    );
    let refused = |more: &[&str], parts: &[&str]| {
        scratch.burnish(&[&fixed[..], more].concat()).fails_with(parts);
    };
    refused(&["--strategy", "majorty"], &["did you mean `majority`?"]);
    refused(&["--strategy", "majority", "--logprobs", "2"], &["log-probs"]);
}
