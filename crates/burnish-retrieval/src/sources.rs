//! Published data sets as benchmarks: MTRAG-UN, XQuAD, chunking_evaluation.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::chunk::chunks;
use crate::data::{Benchmark, Chunk, Dialogue, Text, Turn};
use crate::{Result, wrong};

#[derive(Deserialize)]
struct MtragRow {
    task_id: String,
    contexts: Vec<MtragContext>,
    input: Vec<MtragSaid>,
    targets: Vec<MtragSaid>,
}

#[derive(Deserialize)]
struct MtragContext {
    document_id: String,
    text: String,
}

#[derive(Deserialize)]
struct MtragSaid {
    speaker: String,
    text: String,
}

/// `reference.jsonl` of MTRAG-UN (IBM/mt-rag-benchmark): each row is a dialogue whose last turn has the row's contexts
/// as evidence; earlier turns are history, and so is the last turn of a row without contexts. The chunks are the
/// contexts of all rows, a pool that is far smaller than the corpora from which they were retrieved. Nobody knows the
/// rewriting of these turns.
pub fn mtrag(file: &str, text: &str) -> Result<Benchmark> {
    let mut chunks: BTreeMap<String, String> = BTreeMap::new();
    let mut dialogues = Vec::new();
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let place = format!("{file}, line {}", number + 1);
        let row: MtragRow = serde_json::from_str(line).or_else(|error| wrong(format!("{place}: {error}")))?;
        let mut turns: Vec<Turn> = Vec::new();
        for said in row.input {
            match (said.speaker.as_str(), turns.last_mut()) {
                ("user", _) => turns.push(Turn {
                    user: said.text,
                    rewrite: None,
                    answer: String::new(),
                    evidence: Vec::new(),
                    switched: false,
                }),
                ("agent", Some(turn)) => turn.answer = said.text,
                _ => return wrong(format!("{place}: `input` has a speaker {:?} out of turn", said.speaker)),
            }
        }
        let (Some(last), Some(target)) = (turns.last_mut(), row.targets.into_iter().next()) else {
            return wrong(format!("{place}: `input` or `targets` is empty"));
        };
        last.answer = target.text;
        for context in row.contexts {
            if !last.evidence.contains(&context.document_id) {
                last.evidence.push(context.document_id.clone());
            }
            let known = chunks.entry(context.document_id).or_insert_with(|| context.text.clone());
            if *known != context.text {
                return wrong(format!(
                    "{place}: a context has another text than one of the same `document_id` before"
                ));
            }
        }
        dialogues.push(Dialogue { id: row.task_id, turns });
    }
    let chunks = chunks
        .into_iter()
        .map(|(id, text)| {
            // "806502664_349-964-0-615" is a passage of document 806502664.
            let document = id.split_once('_').map_or(id.as_str(), |(document, _)| document).to_owned();
            Chunk { id, document, span: None, text }
        })
        .collect();
    Benchmark::new(chunks, dialogues).or_else(|error| wrong(format!("{file}: {error}")))
}

#[derive(Deserialize)]
struct Squad {
    data: Vec<SquadArticle>,
}

#[derive(Deserialize)]
struct SquadArticle {
    title: Option<String>,
    paragraphs: Vec<SquadParagraph>,
}

#[derive(Deserialize)]
struct SquadParagraph {
    context: String,
    qas: Vec<SquadQuestion>,
}

#[derive(Deserialize)]
struct SquadQuestion {
    question: String,
    answers: Vec<SquadAnswer>,
}

#[derive(Deserialize)]
struct SquadAnswer {
    text: String,
}

fn squad(file: &str, text: &str) -> Result<Vec<(String, Vec<SquadParagraph>)>> {
    let squad: Squad = serde_json::from_str(text).or_else(|error| wrong(format!("{file}: {error}")))?;
    let named = |(number, article): (usize, SquadArticle)| {
        (article.title.unwrap_or_else(|| format!("article-{number}")), article.paragraphs)
    };
    Ok(squad.data.into_iter().enumerate().map(named).collect())
}

/// A file in SQuAD's format, such as XQuAD's: each paragraph is a chunk, each question a dialogue of one turn, which
/// needs no rewriting.
pub fn xquad(file: &str, text: &str) -> Result<Benchmark> {
    let mut chunks = Vec::new();
    let mut dialogues = Vec::new();
    for (title, paragraphs) in squad(file, text)? {
        for (number, paragraph) in paragraphs.into_iter().enumerate() {
            let id = format!("{title}#{number}");
            for (question_number, asked) in paragraph.qas.into_iter().enumerate() {
                let answer = asked.answers.into_iter().next().map_or_else(String::new, |answer| answer.text);
                let turn = Turn {
                    rewrite: Some(asked.question.clone()),
                    user: asked.question,
                    answer,
                    evidence: vec![id.clone()],
                    switched: false,
                };
                dialogues.push(Dialogue { id: format!("{id}/{question_number}"), turns: vec![turn] });
            }
            chunks.push(Chunk { id, document: title.clone(), span: None, text: paragraph.context });
        }
    }
    Benchmark::new(chunks, dialogues).or_else(|error| wrong(format!("{file}: {error}")))
}

/// The articles of a file in SQuAD's format as texts, with blank lines between paragraphs.
pub fn xquad_texts(file: &str, text: &str) -> Result<Vec<Text>> {
    let joined = |paragraphs: Vec<SquadParagraph>| {
        paragraphs.into_iter().map(|paragraph| paragraph.context).collect::<Vec<_>>().join("\n\n")
    };
    Ok(squad(file, text)?
        .into_iter()
        .map(|(name, paragraphs)| Text { name, text: joined(paragraphs) })
        .collect())
}

#[derive(Deserialize)]
struct ChunkingRow {
    question: String,
    references: String,
    corpus_id: String,
}

#[derive(Deserialize)]
struct ChunkingReference {
    content: String,
    start_index: usize,
    end_index: usize,
}

/// The questions of chunking_evaluation (`questions_df.csv`) on its corpora, cut into chunks of at most `words_max`
/// words. A question is a dialogue of one turn, which needs no rewriting; its answer is what its references say, its
/// evidence every chunk that a reference overlaps. A corpus that is not among `corpora` is left out with its
/// questions.
pub fn chunking_evaluation(file: &str, csv: &str, corpora: &[Text], words_max: usize) -> Result<Benchmark> {
    let cut: BTreeMap<&str, (&Text, Vec<Chunk>)> =
        corpora.iter().map(|text| (text.name.as_str(), (text, chunks(text, words_max)))).collect();
    let mut dialogues = Vec::new();
    for (number, row) in csv::Reader::from_reader(csv.as_bytes()).deserialize::<ChunkingRow>().enumerate() {
        let row = row.or_else(|error| wrong(format!("{file}: {error}")))?;
        let Some((text, chunks)) = cut.get(row.corpus_id.as_str()) else { continue };
        let place = format!("{file}, question {}", number + 1);
        let references: Vec<ChunkingReference> = serde_json::from_str(&row.references)
            .or_else(|error| wrong(format!("{place}: `references`: {error}")))?;
        let mut evidence: Vec<String> = Vec::new();
        for reference in &references {
            // The indices count characters.
            let from = byte_of(&text.text, reference.start_index);
            let to = byte_of(&text.text, reference.end_index);
            if text.text.get(from..to) != Some(reference.content.as_str()) {
                return wrong(format!(
                    "{place}: characters {} to {} of {:?} are not {:?}",
                    reference.start_index, reference.end_index, text.name, reference.content
                ));
            }
            let overlaps = |chunk: &&Chunk| chunk.span.is_some_and(|[start, end]| start < to && from < end);
            for chunk in chunks.iter().filter(overlaps) {
                if !evidence.contains(&chunk.id) {
                    evidence.push(chunk.id.clone());
                }
            }
        }
        let answer =
            references.iter().map(|reference| reference.content.as_str()).collect::<Vec<_>>().join(" ");
        let turn = Turn {
            rewrite: Some(row.question.clone()),
            user: row.question,
            answer,
            evidence,
            switched: false,
        };
        dialogues.push(Dialogue { id: format!("{}/{number}", row.corpus_id), turns: vec![turn] });
    }
    let chunks = cut.into_values().flat_map(|(_, chunks)| chunks).collect();
    Benchmark::new(chunks, dialogues).or_else(|error| wrong(format!("{file}: {error}")))
}

/// The byte at which character `index` of `text` begins; its length beyond the last one.
fn byte_of(text: &str, index: usize) -> usize {
    text.char_indices().nth(index).map_or(text.len(), |(byte, _)| byte)
}
