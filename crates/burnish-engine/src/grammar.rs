//! Answers constrained by a JSON schema, a regular expression or the tools that the policy was given, with `llguidance`.

mod tools;

use std::sync::Arc;

use burnish_core::{Grammar, Piece, ToolSpec};
use burnish_model::{ChatTemplate, ShapeError, Tokenizer};
use llguidance::api::TopLevelGrammar;
use llguidance::toktrie::{ApproximateTokEnv, SimpleVob, TokEnv, TokRxInfo, TokTrie};
use llguidance::{Matcher, ParserFactory, token_bytes_from_tokenizer_json};
use serde_json::{Value, json};

use crate::control::{Control, Decision, Now, Steer};

/// Why a grammar can't be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GrammarError {
    /// It is not a valid grammar.
    #[error("{0}")]
    Malformed(String),
    /// The bytes of the tokens are unknown.
    #[error("the tokenizer can't be used with a grammar: {0}")]
    Tokenizer(String),
    /// It is not known how calls are written.
    #[error(transparent)]
    Calls(#[from] ShapeError),
    /// A call can't be held to the schema of a tool.
    #[error("the tool `{tool}`: {problem}")]
    Tool {
        /// Which tool.
        tool: String,
        /// What is wrong with its schema.
        problem: String,
    },
    /// The beginning that an answer was given does not begin any text of the language.
    #[error("no text of the language begins as the answer was begun: {0}")]
    Begun(String),
}

/// Checks a grammar, independently of the tokenizer.
///
/// # Errors
/// If it is not valid, or uses an unsupported feature.
pub fn check_grammar(grammar: &Grammar) -> Result<(), GrammarError> {
    let bytes = ApproximateTokEnv::single_byte_env();
    Grammars::over(&bytes)?.start(grammar, None).map(drop)
}

/// Makes matchers for one tokenizer.
pub(crate) struct Grammars {
    factory: ParserFactory,
}

impl Grammars {
    /// For a tokenizer, with the ids that end an answer. Ids below `ids` that the tokenizer does not have are never
    /// allowed.
    ///
    /// # Errors
    /// If the bytes of its tokens are unknown.
    pub(crate) fn new(tokenizer: &Tokenizer, end_ids: &[u32], ids: usize) -> Result<Self, GrammarError> {
        let problem = |problem: &dyn ToString| GrammarError::Tokenizer(problem.to_string());
        let Some(&end) = end_ids.first() else {
            return Err(problem(&"there is no id that ends an answer"));
        };
        let json = serde_json::from_str(tokenizer.json()).map_err(|error| problem(&error))?;
        let mut words = token_bytes_from_tokenizer_json(&json).map_err(|error| problem(&error))?;
        words.resize(ids, Vec::new());
        let trie = TokTrie::from(&TokRxInfo::new(ids as u32, end), &words).with_eos_tokens(end_ids);
        let bytes: TokEnv = Arc::new(ApproximateTokEnv::new(trie));
        Grammars::over(&bytes)
    }

    fn over(bytes: &TokEnv) -> Result<Self, GrammarError> {
        let factory = ParserFactory::new_simple(bytes);
        let mut factory = factory.map_err(|error| GrammarError::Tokenizer(error.to_string()))?;
        factory.quiet();
        Ok(Grammars { factory })
    }

    /// A control that holds an answer to `grammar`; `None` if any answer is in its language. `offered` are the tools that the
    /// policy was given, and the template that writes calls.
    ///
    /// # Errors
    /// If it is not a valid grammar, or it is not known how the tools are called.
    pub(crate) fn start(
        &self,
        grammar: &Grammar,
        offered: Option<(&[ToolSpec], &ChatTemplate)>,
    ) -> Result<Option<Held>, GrammarError> {
        let top = match (grammar, offered) {
            (Grammar::JsonSchema(schema), _) => TopLevelGrammar::from_json_schema(spaced(schema)),
            (Grammar::Regex(regex), _) => TopLevelGrammar::from_regex(regex),
            (Grammar::Tools, None | Some(([], _))) => return Ok(None),
            (Grammar::Tools, Some((tools, template))) => return self.of_tools(tools, template).map(Some),
        };
        self.held(top).map(Some).map_err(GrammarError::Malformed)
    }

    fn of_tools(&self, tools: &[ToolSpec], template: &ChatTemplate) -> Result<Held, GrammarError> {
        let shapes = template.call_shapes(tools)?;
        let openings = template.call_format().map_or(&[][..], |format| format.openings());
        let language =
            |shapes: &[_]| TopLevelGrammar::from_lark(tools::language(shapes, openings.first().copied()));
        self.held(language(&shapes)).map_err(|problem| {
            // One tool at a time says whose schema it is.
            let faulty = shapes.chunks(1).zip(tools).find_map(|(shape, tool)| {
                Some(GrammarError::Tool {
                    tool: tool.name.clone(),
                    problem: self.held(language(shape)).err()?,
                })
            });
            faulty.unwrap_or(GrammarError::Malformed(problem))
        })
    }

    fn held(&self, top: TopLevelGrammar) -> Result<Held, String> {
        let mut matcher = Matcher::new(self.factory.create_parser(top));
        match matcher.get_error() {
            // The library's advice names an option of its own.
            Some(error) if error.contains("coerce_one_of") => Err(
                "`oneOf` can't be held to: write `anyOf`, which is the same where no value fits two of them"
                    .to_owned(),
            ),
            Some(error) => Err(error),
            None => {
                // Some errors are found only when the first token is asked for.
                matcher.compute_mask_or_eos().map_err(|error| error.to_string())?;
                Ok(Held { matcher, read: 0 })
            }
        }
    }
}

/// White space between the tokens of JSON, as llama.cpp bounds it: without a bound, a weak policy writes it up to the end of
/// its answer.
const SPACE: &str = r" |\n{1,2}[ \t]{0,20}";

/// A schema with bounded white space, unless it says itself what stands between tokens.
fn spaced(schema: &Value) -> Value {
    let mut schema = schema.clone();
    let options =
        schema.as_object_mut().map(|schema| schema.entry("x-guidance").or_insert_with(|| json!({})));
    if let Some(options) = options.and_then(Value::as_object_mut)
        && !options.contains_key("whitespace_flexible")
    {
        options.entry("whitespace_pattern").or_insert_with(|| SPACE.into());
    }
    schema
}

/// Holds an answer to its grammar.
pub(crate) struct Held {
    matcher: Matcher,
    /// Number of the answer's tokens that the matcher has read.
    read: usize,
}

impl Held {
    /// A copy for another answer, before its first token. Such copies share what the lexer has found out so far about
    /// which bytes can follow which: to find it out anew for every answer takes longer than a small model.
    fn sharing(&self) -> Self {
        Held { matcher: self.matcher.clone(), read: 0 }
    }

    /// A copy before its first token that shares nothing.
    fn apart(&self) -> Self {
        Held { matcher: self.matcher.deep_clone(), read: 0 }
    }

    /// Reads the beginning that the answer was given.
    ///
    /// # Errors
    /// If no text of the language begins so.
    pub(crate) fn begun(mut self, begun: &[Piece]) -> Result<Self, GrammarError> {
        let ids: Vec<u32> = begun.iter().flat_map(|piece| piece.ids.iter().copied()).collect();
        self.matcher.consume_tokens(&ids).map_err(|error| GrammarError::Begun(error.to_string()))?;
        Ok(self)
    }
}

/// Controls for any number of answers in one language.
pub(crate) struct Answers {
    /// Has read nothing, and knows nothing.
    first: Held,
    /// What the answers since the last renewal share.
    shared: Held,
    /// Their number.
    begun: usize,
}

impl Answers {
    /// After so many answers what they share is forgotten: what a lexer finds out has no bound of its own.
    const RENEWED: usize = 1024;

    /// For answers that `first` would hold, which has read nothing.
    pub(crate) fn of(first: Held) -> Self {
        Answers { shared: first.apart(), first, begun: 0 }
    }

    /// The control of one more answer.
    pub(crate) fn next(&mut self) -> Held {
        if self.begun == Answers::RENEWED {
            (self.shared, self.begun) = (self.first.apart(), 0);
        }
        self.begun += 1;
        self.shared.sharing()
    }
}

impl std::fmt::Debug for Held {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Held").field("read", &self.read).finish_non_exhaustive()
    }
}

impl Control for Held {
    fn decide(&mut self, now: &Now<'_>, steer: &mut Steer) -> Result<Decision, String> {
        let problem = |error: &dyn ToString| format!("sampling.grammar: {}", error.to_string());
        for &id in &now.answer[self.read..] {
            // After the end of the text only an end token is allowed, which ends the answer unless end tokens are
            // ignored.
            if self.matcher.is_stopped() {
                return Ok(Decision::Stop);
            }
            self.matcher.consume_token(id).map_err(|error| problem(&error))?;
        }
        self.read = now.answer.len();
        let mask: SimpleVob = self.matcher.compute_mask_or_eos().map_err(|error| problem(&error))?;
        steer.allow_bits(mask.as_slice());
        Ok(Decision::Choose)
    }

    fn reads_logits(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests;
