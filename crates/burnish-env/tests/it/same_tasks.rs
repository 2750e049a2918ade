//! The tasks of built-in environments stay the same, because evaluations and splits of tasks name them by their ids.

use burnish_env::{build, digest};
use serde_json::Value;

/// Digests of the first eight tasks with the default configuration, made before environments were families of tasks.
const TASKS: &[(&str, &str)] = &[
    ("accounts", "124da44a7a64edda"),
    ("associative", "4cdef4c4a2225f25"),
    ("chains", "b0f10fd5a0f25050"),
    ("clarify", "c9a48cfba2b1e34d"),
    ("countdown", "a55542cf35405029"),
    ("household", "8193d253ac1baa52"),
    ("mapf-frozenlake", "03333a43950ff632"),
    ("mapped", "d1fe81d2dcd0c595"),
    ("mapping", "6af7df87eacad804"),
    ("orders", "cc612886ac6b67cf"),
    ("programs", "56de33c3b89db356"),
    ("recall", "708aeaf6f5761869"),
    ("scenes", "5498eaa468dab54c"),
    ("skilled", "0851633833c232b9"),
    ("specs", "d5d2b248f39a7840"),
    ("tables", "4ff42c8df12ad562"),
    ("timed_facts", "3837118742c7d19f"),
    ("worlds", "e8717fa3af527a2e"),
];

#[test]
fn the_default_tasks_are_those_of_earlier_versions() {
    for (id, expected) in TASKS {
        let set = build(id, &Value::Null).unwrap().tasks(0, 8).unwrap();
        assert_eq!(digest(serde_json::to_string(&set).unwrap().as_bytes()), *expected, "{id}");
    }
}
