//! Reads the file: pages with paragraphs and questions.

use std::path::Path;
use std::sync::Arc;

use burnish_data::{DataError, read_whole};
use serde::Deserialize;

use crate::EnvError;

/// A page, shared by the questions about it.
#[derive(Debug)]
pub(super) struct Page {
    /// The Wikidata property that is asked for (`P54`).
    pub(super) relation: String,
    /// Its paragraphs; the first is the title.
    pub(super) paragraphs: Vec<String>,
}

/// A question.
#[derive(Debug)]
pub(super) struct Question {
    pub(super) page: Arc<Page>,
    pub(super) text: String,
    /// The distinct gold answers in the order of the file; none if the page does not answer the question.
    pub(super) golds: Vec<String>,
}

/// A page as it is in the file; other fields are not read.
#[derive(Deserialize)]
struct Row {
    #[serde(rename = "type")]
    relation: String,
    paras: Vec<String>,
    questions: Vec<(String, Vec<Answer>)>,
}

#[derive(Deserialize)]
struct Answer {
    answer: String,
}

/// Reads every question of a file.
///
/// # Errors
/// If it can't be read, is not in TimeQA's format, or has no question.
pub(super) fn read(path: &Path) -> Result<Vec<Question>, EnvError> {
    let wrong = |problem: String| EnvError::from(DataError::file(path, problem));
    let rows: Vec<Row> = serde_json::from_slice(&read_whole(path)?).map_err(|error| {
        wrong(format!("is not TimeQA's human_annotated_test.json, a list of pages with questions: {error}"))
    })?;
    let mut questions = Vec::new();
    for Row { relation, paras, questions: asked } in rows {
        let page = Arc::new(Page { relation, paragraphs: paras });
        for (text, answers) in asked {
            let mut golds: Vec<String> = Vec::new();
            for Answer { answer } in answers {
                if !answer.trim().is_empty() && !golds.contains(&answer) {
                    golds.push(answer);
                }
            }
            questions.push(Question { page: Arc::clone(&page), text, golds });
        }
    }
    if questions.is_empty() {
        return Err(wrong("has no questions".into()));
    }
    Ok(questions)
}
