//! A model directory with a wrong chat ends in an error that names the file, and the key or token.

use std::fs;
use std::path::Path;

use burnish_core::ToolSpec;
use burnish_model::{Chat, ChatTemplate, GenerationDefaults, Tokenizer, load_policy};
use serde_json::{Value, json};

fn chat_dir() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let tokenizer = Tokenizer::train_bpe(&["the robot"], 262, &["<|im_start|>", "<|im_end|>"]).unwrap();
    let template = ChatTemplate::chatml().unwrap();
    Chat::new(tokenizer, template, &["<|im_end|>"], "<|im_end|>").unwrap().save(dir.path()).unwrap();
    dir
}

#[track_caller]
fn check_chat(dir: &Path, expected: &[&str]) {
    let error = Chat::load(dir).unwrap_err().to_string();
    for part in expected {
        assert!(error.contains(part), "`{part}` is not in: {error}");
    }
}

#[test]
fn a_chat_without_a_part_names_it() {
    let dir = chat_dir();
    let file = |name: &str| dir.path().join(name);
    assert_eq!(Chat::load(dir.path()).unwrap().end_ids(), [1]);

    fs::write(file("generation_config.json"), r#"{"eos_token_id": [1, 999]}"#).unwrap();
    check_chat(dir.path(), &["generation_config.json: eos_token_id", "`id 999`"]);
    fs::write(file("generation_config.json"), r#"{"eos_token_id": "end"}"#).unwrap();
    check_chat(dir.path(), &["generation_config.json", "\"end\"", "an id or a list of ids"]);
    fs::write(file("generation_config.json"), r#"{"eos_token_id": []}"#).unwrap();
    check_chat(dir.path(), &["generation_config.json", "an id or a list of ids"]);

    fs::write(file("generation_config.json"), "{}").unwrap();
    fs::write(file("config.json"), r#"{"eos_token_id": 0}"#).unwrap();
    assert_eq!(Chat::load(dir.path()).unwrap().end_ids(), [0]);
    fs::remove_file(file("config.json")).unwrap();
    assert_eq!(Chat::load(dir.path()).unwrap().end_ids(), [1], "eos_token of tokenizer_config.json");

    fs::write(file("tokenizer_config.json"), r#"{"eos_token": {"content": "<eos>"}}"#).unwrap();
    check_chat(dir.path(), &["tokenizer_config.json: eos_token", "`<eos>`"]);
    fs::write(file("tokenizer_config.json"), "{}").unwrap();
    check_chat(dir.path(), &["nothing says which token ends an answer", "generation_config.json"]);

    fs::write(file("chat_template.jinja"), "{% if %}").unwrap();
    check_chat(dir.path(), &["chat_template.jinja", "does not compile"]);
    fs::remove_file(file("chat_template.jinja")).unwrap();
    check_chat(dir.path(), &["there is no chat template"]);
    fs::write(file("tokenizer.json"), "{}").unwrap();
    check_chat(dir.path(), &["tokenizer.json", "not a tokenizer"]);
    fs::remove_file(file("tokenizer.json")).unwrap();
    check_chat(dir.path(), &["cannot read", "tokenizer.json"]);
}

#[test]
fn a_template_in_the_tokenizers_configuration_is_found() {
    let dir = chat_dir();
    fs::remove_file(dir.path().join("chat_template.jinja")).unwrap();
    for template in [
        json!("{{ eos_token }}"),
        json!([{ "name": "tool_use", "template": "x" }, { "name": "default", "template": "{{ eos_token }}" }]),
    ] {
        let config = json!({ "eos_token": "<|im_end|>", "chat_template": template });
        fs::write(dir.path().join("tokenizer_config.json"), config.to_string()).unwrap();
        let chat = Chat::load(dir.path()).unwrap();
        assert_eq!(chat.template.render(&[], &[], false).unwrap(), "<|im_end|>");
    }
}

fn tool() -> ToolSpec {
    ToolSpec {
        name: "look".into(),
        description: String::new(),
        parameters: json!({}),
        more: serde_json::Map::new(),
    }
}

#[test]
fn several_templates_are_found_in_either_place_and_saved() {
    let dir = chat_dir();
    let config = json!({ "eos_token": "<|im_end|>", "chat_template": [
        { "name": "default", "template": "d" }, { "name": "tool_use", "template": "t" }, { "name": "rag", "template": "r" },
    ] });
    fs::remove_file(dir.path().join("chat_template.jinja")).unwrap();
    fs::write(dir.path().join("tokenizer_config.json"), config.to_string()).unwrap();
    let saved = tempfile::tempdir().unwrap();
    Chat::load(dir.path()).unwrap().save(saved.path()).unwrap();
    let more = saved.path().join("additional_chat_templates");
    assert_eq!(fs::read_to_string(more.join("rag.jinja")).unwrap(), "r");
    assert!(
        !fs::read_to_string(saved.path().join("tokenizer_config.json")).unwrap().contains("chat_template")
    );
    for dir in [dir.path(), saved.path()] {
        let template = Chat::load(dir).unwrap().template;
        assert_eq!(template.render(&[], &[], false).unwrap(), "d");
        assert_eq!(template.render(&[], &[tool()], false).unwrap(), "t");
    }
    // Template files take precedence over the configuration, as a whole.
    fs::write(saved.path().join("tokenizer_config.json"), config.to_string()).unwrap();
    fs::remove_file(saved.path().join("chat_template.jinja")).unwrap();
    check_chat(
        saved.path(),
        &["no chat template is named `default`, only rag, tool_use", "chat_template.jinja"],
    );
    fs::write(more.join("tool_use.jinja"), "{% if %}").unwrap();
    fs::write(saved.path().join("chat_template.jinja"), "d").unwrap();
    check_chat(saved.path(), &["tool_use.jinja", "does not compile"]);
    for wrong in [json!(1), json!([{ "name": "default" }]), json!([{ "name": "../x", "template": "x" }])] {
        fs::write(dir.path().join("tokenizer_config.json"), json!({ "chat_template": wrong }).to_string())
            .unwrap();
        check_chat(dir.path(), &["tokenizer_config.json", "`chat_template` must be a text, or a list"]);
    }
}

#[test]
fn special_tokens_of_older_files_reach_the_template() {
    let dir = chat_dir();
    fs::write(dir.path().join("tokenizer_config.json"), r#"{"bos_token": null}"#).unwrap();
    let map = r#"{"bos_token": {"content": "<|im_start|>"}, "eos_token": "<|im_end|>"}"#;
    fs::write(dir.path().join("special_tokens_map.json"), map).unwrap();
    fs::write(dir.path().join("chat_template.jinja"), "{{ bos_token + eos_token }}").unwrap();
    let chat = Chat::load(dir.path()).unwrap();
    assert_eq!(chat.template.render(&[], &[], false).unwrap(), "<|im_start|><|im_end|>");
}

#[test]
fn added_tokens_that_the_tokenizer_lacks_are_named() {
    let dir = chat_dir();
    let with = |id: &str, content: &str| {
        let config =
            json!({ "eos_token": "<|im_end|>", "added_tokens_decoder": { id: { "content": content } } });
        fs::write(dir.path().join("tokenizer_config.json"), config.to_string()).unwrap();
    };
    with("1", "<|im_end|>");
    Chat::load(dir.path()).unwrap();
    with("1", "<tool>");
    check_chat(
        dir.path(),
        &["tokenizer_config.json", "`added_tokens_decoder.1` is `<tool>`", "has `<|im_end|>`"],
    );
    with("9999", "<tool>");
    check_chat(dir.path(), &["`added_tokens_decoder.9999` is `<tool>`", "has nothing there"]);
    with("x", "<tool>");
    check_chat(dir.path(), &["`added_tokens_decoder.x` must be a token id"]);
}

#[test]
fn defaults_of_sampling_are_read_when_they_are_taken_and_kept_when_saved() {
    let (dir, saved) = (chat_dir(), tempfile::tempdir().unwrap());
    let path = dir.path().join("generation_config.json");
    let config = json!({ "eos_token_id": [1, 0], "temperature": 0.6, "top_k": 20, "do_sample": true });
    fs::write(&path, config.to_string()).unwrap();
    let chat = Chat::load(dir.path()).unwrap();
    assert_eq!(chat.end_ids(), [1, 0]);
    let defaults = chat.generation_defaults().unwrap();
    assert_eq!((defaults.temperature, defaults.top_k, defaults.top_p), (Some(0.6), Some(20), None));
    chat.save(saved.path()).unwrap();
    let read = |path: &Path| -> Value { serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap() };
    assert_eq!(read(&saved.path().join("generation_config.json")), config);

    fs::write(&path, r#"{"eos_token_id": 1, "num_beams": 4}"#).unwrap();
    let error = Chat::load(dir.path()).unwrap().generation_defaults().unwrap_err().to_string();
    assert!(
        error.contains("generation_config.json: `num_beams` is 4") && error.contains("1 (off)"),
        "{error}"
    );
    fs::write(&path, "[]").unwrap();
    check_chat(dir.path(), &["generation_config.json", "not a JSON object"]);
    fs::remove_file(&path).unwrap();
    assert_eq!(Chat::load(dir.path()).unwrap().generation_defaults().unwrap(), GenerationDefaults::default());
}

#[test]
fn a_chat_saved_and_loaded_writes_the_same_files() {
    let (first, second) = (chat_dir(), tempfile::tempdir().unwrap());
    Chat::load(first.path()).unwrap().save(second.path()).unwrap();
    let mut names: Vec<_> =
        fs::read_dir(first.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(
        names,
        ["chat_template.jinja", "generation_config.json", "tokenizer.json", "tokenizer_config.json"]
    );
    for name in names {
        let read = |dir: &Path| fs::read_to_string(dir.join(&name)).unwrap();
        assert_eq!(read(first.path()), read(second.path()), "{name:?}");
    }
}

#[test]
fn end_tokens_that_the_tokenizer_lacks_are_named() {
    let tokenizer = Tokenizer::train_bpe(&["the robot"], 262, &["<|im_end|>"]).unwrap();
    let template = ChatTemplate::chatml().unwrap();
    let error =
        Chat::new(tokenizer, template, &["<|im_end|>", "<stop>"], "<|im_end|>").unwrap_err().to_string();
    assert!(error.contains("`<stop>`") && !error.contains("`<|im_end|>`"), "{error}");
}

#[test]
fn a_tokenizer_larger_than_the_model_is_refused() {
    let dir = chat_dir();
    for file in ["config.json", "model.safetensors"] {
        fs::copy(
            Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/llama").join(file),
            dir.path().join(file),
        )
        .unwrap();
    }
    let error = load_policy(dir.path()).unwrap_err().to_string();
    assert!(error.contains("tokenizer.json") && error.contains("only 67"), "{error}");
}
