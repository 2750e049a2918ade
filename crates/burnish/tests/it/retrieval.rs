//! Benchmarks of retrieval on the command line, made from this project's own documentation.

use crate::common::Scratch;
use crate::test_server::serve_routes;
use serde_json::{Value, json};

const DOCS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs");

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

fn made(scratch: &Scratch) -> Value {
    let ask =
        ["data", "dialogues", DOCS, "--out", "made", "--set", "dialogues=30", "--set", "turns=5", "--json"];
    parsed(&scratch.burnish(&ask).succeeds().stdout())
}

#[test]
fn dialogues_are_made_audited_and_scored() {
    let scratch = Scratch::with_policy();
    let report = made(&scratch);
    assert!(
        report["dialogues"].as_u64().unwrap() >= 10 && report["polished"].as_u64().unwrap() > 0,
        "{report}"
    );
    let before: Vec<Vec<u8>> =
        ["chunks", "dialogues", "unspliced"].map(|name| scratch.read(&format!("made/{name}.jsonl"))).into();
    made(&scratch);
    let after: Vec<Vec<u8>> =
        ["chunks", "dialogues", "unspliced"].map(|name| scratch.read(&format!("made/{name}.jsonl"))).into();
    assert_eq!(before, after);

    let audited =
        parsed(&scratch.burnish(&["data", "audit", "made", "--corrupt", "--json"]).succeeds().stdout());
    assert!(audited["audit"]["turns"].as_u64().unwrap() > 30);
    let wrong = audited["corruptions"]
        .as_array()
        .unwrap()
        .iter()
        .find(|one| one["corruption"] == "wrong_evidence")
        .unwrap();
    assert!(wrong["lowered"].as_array().unwrap().contains(&json!("alignment")), "{wrong}");

    let score = ["eval", "retrieval", "--data", "made", "--policy", "tiny", "--k", "1,5", "--json"];
    let found = parsed(&scratch.burnish(&score).succeeds().stdout());
    let arms = found["scores"]["arms"].as_array().unwrap();
    let recall = |name: &str| {
        let arm = arms.iter().find(|arm| arm["arm"] == name).unwrap_or_else(|| panic!("{name}: {arms:?}"));
        arm["recall"]["5"]["mean"].as_f64().unwrap()
    };
    assert!(
        recall("bm25/rewrite") > recall("bm25/last_turn")
            && recall("bm25/last_turn") > recall("random/last_turn")
    );
    assert!(arms.iter().any(|arm| arm["arm"].as_str().unwrap().contains("tiny")));
    assert_eq!(found["variants"]["variants"].as_array().unwrap().len(), 4);
}

#[test]
fn servers_speak_judge_and_give_vectors() {
    let scratch = Scratch::new();
    let url = serve_routes(|path, body| {
        let answer = |text: &str| json!({"choices": [{"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}]});
        Some((
            "200 OK",
            match path {
                "/v1/embeddings" => {
                    let texts = body["input"].as_array().unwrap();
                    let row = |(index, text): (usize, &Value)| {
                        let text = text.as_str().unwrap();
                        json!({"index": index, "embedding": [text.len(), text.matches('e').count(), 1]})
                    };
                    json!({ "data": texts.iter().enumerate().map(row).collect::<Vec<_>>() })
                }
                _ => {
                    let prompt = body["messages"][0]["content"].as_str().unwrap();
                    answer(if prompt.contains("\"choice\"") {
                        r#"{"choice": 1}"#
                    } else if prompt.contains("\"pass\"") {
                        r#"{"pass": true}"#
                    } else {
                        r#"{"score": 4}"#
                    })
                }
            },
        ))
    });
    let url = format!("{url}/v1");
    made(&scratch);
    let ask = ["data", "audit", "made", "--judge", &url, "--model", "j", "--set", "dialogues=4", "--json"];
    let audited = parsed(&scratch.burnish(&ask).succeeds().stdout());
    assert_eq!(
        (&audited["audit"]["judges"], &audited["audit"]["failures"]),
        (&json!(["j"]), &json!(0)),
        "{audited}"
    );
    assert_eq!(audited["audit"]["means"]["alignment"]["mean"], 4.0);
    let ask = ["eval", "retrieval", "--data", "made", "--policy", &url, "--model", "e", "--json"];
    let found = parsed(&scratch.burnish(&ask).succeeds().stdout());
    let arms = found["scores"]["arms"].as_array().unwrap();
    assert!(arms.iter().any(|arm| arm["arm"].as_str().unwrap().contains("e at http")), "{arms:?}");
}

#[test]
fn what_is_wrong_is_named() {
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.path("empty")).unwrap();
    let refused = |arguments: &[&str], parts: &[&str]| {
        scratch.burnish(arguments).fails_with(parts);
    };
    refused(&["data", "dialogues", "absent.md", "--out", "new"], &["absent.md"]);
    refused(&["data", "dialogues", DOCS, "--out", "new", "--set", "turn=3"], &["turn"]);
    refused(&["data", "audit", "empty"], &["empty is no benchmark of retrieval", "chunks.jsonl"]);
    refused(&["eval", "retrieval"], &["which benchmark?", "burnish data dialogues"]);
    refused(&["eval", "retrieval", "--data", "empty", "--step", "3"], &["--step"]);
    assert!(!scratch.path("new").exists());
}
