//! A model on a server that speaks OpenAI's chat completions. It is asked for a summary first, where the recipe tells
//! engineers one, and then for the configuration. An answer that makes no sense is an answer; a server that gives none
//! ends the loop, which goes on from there when it is started again.

use burnish_core::Message;
use burnish_recipe::{ContextModule, RedesignSection};
use burnish_tensor::Device;

use crate::RunError;
use crate::asked::{self, How};
use crate::redesign::{Brief, Engineer};

const SUMMARISE: &str = "You look at a policy that learns by reinforcement in an environment. Below is what came of a round of \
                         training. Say in at most five sentences what the policy does well and badly, and what the likely \
                         causes are. Do not propose anything yet.";

const REDESIGN: &str = "You are the engineer of an environment in which a policy learns by reinforcement. Below is what came \
                        of a round of training. Choose the configuration of the next round so that the policy becomes better \
                        at the tasks that are held out. You change numbers only, within their ranges; shares are scaled so \
                        that they sum to 1. Keys that you leave out stay as they are. Think briefly, then answer with one \
                        object of JSON and nothing after it:\n\
                        {\"reason\": \"why, in one or two sentences\", \"config\": {\"KEY\": NUMBER, ...}}";

pub(super) struct Asked {
    client: asked::Asked,
    tokens_max: usize,
    temperature: f32,
    summarises: bool,
}

impl Asked {
    /// The model of `redesign.endpoint`.
    ///
    /// # Errors
    /// If it can't be reached, such as without its key.
    pub(super) fn new(redesign: &RedesignSection) -> Result<Self, RunError> {
        Ok(Asked {
            client: asked::Asked::named("redesign", None, redesign.endpoint.as_ref(), &Device::cpu())?,
            tokens_max: redesign.tokens_max,
            temperature: redesign.temperature,
            summarises: redesign.tells(ContextModule::Summary),
        })
    }

    fn ask(&mut self, question: String, seed: u64) -> Result<String, RunError> {
        let how = How { temperature: self.temperature, tokens_max: self.tokens_max, seed };
        let answers = self.client.ask(vec![vec![Message::user(question)]], how);
        let answers = answers.map_err(|error| RunError::Refused(format!("redesign.endpoint: {error}")))?;
        Ok(answers.into_iter().next().unwrap_or_default())
    }
}

impl Engineer for Asked {
    fn propose(&mut self, brief: &Brief<'_>, _: usize) -> Result<String, RunError> {
        let seed = brief.seed.wrapping_add(brief.context.round as u64);
        let mut told = brief.text.to_owned();
        let mut said = String::new();
        if self.summarises {
            let summary = self.ask(format!("{SUMMARISE}\n\n{told}"), seed)?;
            told += &format!("\nWhat you said about it:\n{summary}\n");
            // Braces in it are no proposal.
            said = format!("Summary:\n{}\n\n", summary.replace(['{', '}'], " "));
        }
        let answer = self.ask(format!("{REDESIGN}\n\n{told}"), seed)?;
        Ok(said + &answer)
    }
}
