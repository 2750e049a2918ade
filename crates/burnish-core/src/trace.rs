//! The token-exact record of one agent's run.
//!
//! A trace is a graph of nodes, each a run of tokens that follows its parent. A path from a root to a leaf is
//! a [`Branch`]: one training sample. A conversation whose template only ever appends is one path; where a
//! template rewrites history, the trace forks, and what the policy sampled stays on its own branch.
//!
//! Every token carries its provenance: who produced it. The policy's own tokens also carry the version of the weights,
//! the temperature and two log-probabilities: the *model's*, which the trainer recomputes, and the *sampled* one, under
//! the distribution that the token was drawn from. Masks are read from provenance only, so a hint, a tool's output or
//! privileged text can't reach a loss.

use std::ops::Range;

use serde::{Deserialize, Serialize};

/// Who produced a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum Source {
    /// Markup of the chat template.
    Scaffold = 0,
    /// A system message.
    System = 1,
    /// A user message, or an environment that speaks as the user.
    User = 2,
    /// A tool's result.
    Tool = 3,
    /// An earlier answer of the assistant, rendered again from its text.
    History = 4,
    /// An answer given as an example to imitate.
    Demonstration = 5,
    /// A hint that the policy may read but must not be trained on.
    Hint = 6,
    /// A token of the teacher.
    Teacher = 7,
    /// A token put in place of a sampled one.
    Patch = 8,
    /// Sampled by the policy.
    Policy = 9,
    /// A latent step: a position without a token of its own, where the policy read its hidden state.
    Latent = 10,
}

impl Source {
    /// Can it be part of an answer that the policy sampled?
    fn is_in_answers(self) -> bool {
        matches!(self, Source::Policy | Source::Latent | Source::Patch)
    }
}

/// Why sampling stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// The policy sampled an end token, which is part of the answer and is trained on.
    EndToken,
    /// The answer reached the turn's token limit and is truncated.
    TokensMax,
    /// The context window is full; the answer is truncated.
    ContextFull,
    /// The text reached a stop string. The tokens that completed it were sampled and are trained on.
    StopString,
    /// A control of the answer, or whoever asked for it, ended it.
    Control,
}

impl StopReason {
    /// Was the answer cut off?
    pub fn is_truncated(self) -> bool {
        matches!(self, StopReason::TokensMax | StopReason::ContextFull)
    }
}

/// How the tokens of a node were sampled.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sampled {
    /// Log-probability of each token under the model, in nats: the softmax of all logits over `temperature`, before
    /// penalties and filters. This is what the trainer recomputes.
    #[serde(rename = "logprobs")]
    pub model_logprobs: Vec<f32>,
    /// Log-probability of each token under the distribution that it was drawn from, in nats: after penalties, filters
    /// and forbidden ids; 0 where sampling was greedy. `None`: the same as the model's, since nothing altered its
    /// distribution. (Traces stored before this field existed always have `None`.)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sampled_logprobs: Option<Vec<f32>>,
    /// Number of updates that the weights had had.
    pub policy_version: u64,
    /// Temperature of sampling; 1 where sampling was greedy.
    pub temperature: f32,
    /// Why sampling stopped.
    pub stop: StopReason,
    /// What the latent steps read in place of embeddings: one row for each token of [`Source::Latent`], in order, all
    /// of the same length. Empty if there are none, or if they read an embedding.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub latents: Vec<f32>,
}

impl Sampled {
    /// The per-token streams, with their lengths.
    fn lengths(&self) -> impl Iterator<Item = (&'static str, usize)> {
        let sampled = self.sampled_logprobs.as_ref().map(|logprobs| ("sampled log-probs", logprobs.len()));
        std::iter::once(("model log-probs", self.model_logprobs.len())).chain(sampled)
    }
}

/// Index of a node in its trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NodeId(pub usize);

/// A run of tokens.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Node {
    /// The node that it follows; `None` at the start of a conversation.
    pub parent: Option<NodeId>,
    /// The text of the tokens, as it stands in the rendered conversation. If a stop string ended an answer, the text
    /// lacks the stop string, but the ids include it.
    pub text: String,
    /// Token ids.
    pub ids: Vec<u32>,
    /// Who produced each token; as long as `ids`.
    pub sources: Vec<Source>,
    /// How the tokens were sampled, if the policy sampled them.
    pub sampled: Option<Sampled>,
}

/// The token-exact record of one agent's run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Trace {
    nodes: Vec<Node>,
    head: Option<NodeId>,
}

/// A node does not fit its trace.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TraceError {
    /// The parent is not in the trace.
    #[error("node {parent} is not in the trace, which has {nodes}")]
    UnknownParent {
        /// The requested parent.
        parent: usize,
        /// Number of nodes.
        nodes: usize,
    },
    /// Streams differ in length.
    #[error("{ids} ids, but {other} {stream}")]
    Length {
        /// Number of ids.
        ids: usize,
        /// Length of the other stream.
        other: usize,
        /// Which stream.
        stream: &'static str,
    },
    /// `sampled` must be present exactly when the tokens are of an answer that the policy sampled: its own, its latent
    /// steps, and what a limit put between them.
    #[error("tokens and sampling record disagree about whether the policy sampled them")]
    Provenance,
    /// What latent steps read is not a row for each of them.
    #[error("{numbers} numbers are no rows for {steps} latent steps")]
    Latents {
        /// How many numbers.
        numbers: usize,
        /// How many latent steps.
        steps: usize,
    },
}

impl Trace {
    /// An empty trace.
    pub fn new() -> Self {
        Trace::default()
    }

    /// The nodes in the order in which they were added; a parent comes before its children.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The node at which the conversation currently ends.
    pub fn head(&self) -> Option<NodeId> {
        self.head
    }

    /// Adds a node and makes it the head.
    ///
    /// # Errors
    /// If the parent is unknown, the streams differ in length, or the sampling record does not fit the sources.
    pub fn push(&mut self, node: Node) -> Result<NodeId, TraceError> {
        if let Some(NodeId(parent)) = node.parent
            && parent >= self.nodes.len()
        {
            return Err(TraceError::UnknownParent { parent, nodes: self.nodes.len() });
        }
        let ids = node.ids.len();
        if node.sources.len() != ids {
            return Err(TraceError::Length { ids, other: node.sources.len(), stream: "sources" });
        }
        for (stream, len) in node.sampled.iter().flat_map(Sampled::lengths) {
            if len != ids {
                return Err(TraceError::Length { ids, other: len, stream });
            }
        }
        match &node.sampled {
            Some(_) if !node.sources.iter().all(|source| source.is_in_answers()) => {
                return Err(TraceError::Provenance);
            }
            Some(Sampled { latents, .. }) if !latents.is_empty() => {
                let steps = node.sources.iter().filter(|source| **source == Source::Latent).count();
                if steps == 0 || !latents.len().is_multiple_of(steps) {
                    return Err(TraceError::Latents { numbers: latents.len(), steps });
                }
            }
            None if node.sources.iter().any(|source| matches!(source, Source::Policy | Source::Latent)) => {
                return Err(TraceError::Provenance);
            }
            _ => {}
        }
        let id = NodeId(self.nodes.len());
        self.nodes.push(node);
        self.head = Some(id);
        Ok(id)
    }

    /// The trace as it was when it had `nodes` nodes and its head was `head`; `None` if there was no such moment.
    pub fn before(&self, nodes: usize, head: Option<NodeId>) -> Option<Trace> {
        let is_inside = head.is_none_or(|NodeId(head)| head < nodes);
        (is_inside && nodes <= self.nodes.len()).then(|| Trace { nodes: self.nodes[..nodes].to_vec(), head })
    }

    /// Adds the nodes of `other`, whose first `shared` nodes are the same; prompts that are there already are not added again.
    /// Its head becomes the head.
    pub fn graft(&mut self, other: &Trace, shared: usize) {
        let mut places: Vec<NodeId> = (0..shared.min(other.nodes.len())).map(NodeId).collect();
        for node in &other.nodes[places.len()..] {
            let parent = node.parent.map(|parent| places[parent.0]);
            let node = Node { parent, ..node.clone() };
            let known = self.nodes.iter().position(|known| node.sampled.is_none() && *known == node);
            places.push(NodeId(known.unwrap_or(self.nodes.len())));
            if known.is_none() {
                self.nodes.push(node);
            }
        }
        self.head = other.head.map(|head| places[head.0]);
    }

    /// The first `shared` nodes and those on the path to `head`, which is the head.
    pub fn along(&self, shared: usize, head: Option<NodeId>) -> Trace {
        let shared = shared.min(self.nodes.len());
        let mut nodes = self.nodes[..shared].to_vec();
        let mut place = None;
        for NodeId(at) in head.map(|head| self.path(head)).unwrap_or_default() {
            if at >= shared {
                nodes.push(Node { parent: place, ..self.nodes[at].clone() });
            }
            place = Some(NodeId(if at < shared { at } else { nodes.len() - 1 }));
        }
        Trace { nodes, head: place }
    }

    /// The path from the root to `node`, root first.
    pub fn path(&self, node: NodeId) -> Vec<NodeId> {
        let mut path: Vec<NodeId> =
            std::iter::successors(Some(node), |id| self.nodes.get(id.0).and_then(|node| node.parent))
                .collect();
        path.reverse();
        path
    }

    /// The ids from the root to the head: what the policy has read and said so far.
    pub fn head_ids(&self) -> Vec<u32> {
        self.head
            .map(|head| self.path(head))
            .unwrap_or_default()
            .into_iter()
            .flat_map(|NodeId(at)| self.nodes[at].ids.iter().copied())
            .collect()
    }

    /// Number of tokens that the policy sampled.
    pub fn sampled_tokens(&self) -> usize {
        self.nodes.iter().filter(|node| node.sampled.is_some()).map(|node| node.ids.len()).sum()
    }

    /// Every root-to-leaf path as one training sample, in the order of the leaves.
    ///
    /// A sampled node that several branches share is marked as sampled on the first of them only, so that it
    /// is trained once.
    pub fn branches(&self) -> Vec<Branch> {
        let mut is_leaf = vec![true; self.nodes.len()];
        for parent in self.nodes.iter().filter_map(|node| node.parent) {
            is_leaf[parent.0] = false;
        }
        let mut is_taken = vec![false; self.nodes.len()];
        (0..self.nodes.len())
            .filter(|&leaf| is_leaf[leaf])
            .map(|leaf| {
                let mut branch = Branch::default();
                for NodeId(at) in self.path(NodeId(leaf)) {
                    branch.append(&self.nodes[at], std::mem::replace(&mut is_taken[at], true));
                }
                branch
            })
            .collect()
    }
}

/// One root-to-leaf path of a trace, flattened: one training sample. All vectors have one entry per token.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Branch {
    /// Token ids.
    pub ids: Vec<u32>,
    /// Who produced each token.
    pub sources: Vec<Source>,
    /// Whether the policy sampled it and it is not already part of an earlier branch.
    pub sampled_mask: Vec<bool>,
    /// Log-probability under the model that sampled it ([`Sampled::model_logprobs`]); 0 where it was not sampled.
    pub model_logprobs: Vec<f32>,
    /// Log-probability with which it was drawn ([`Sampled::sampled_logprobs`]); 0 where it was not sampled.
    pub sampled_logprobs: Vec<f32>,
    /// Version of the weights when it was sampled; 0 where it was not.
    pub policy_versions: Vec<u64>,
    /// Temperature of sampling; 1 where it was not sampled.
    pub temperatures: Vec<f32>,
    /// The token range that each turn sampled, in order; turns that are part of an earlier branch are left out.
    pub turns: Vec<Range<usize>>,
    /// Was any answer on this branch cut off?
    pub is_truncated: bool,
    /// Where latent steps read a hidden state, and what they read ([`Sampled::latents`]).
    pub latents: Vec<LatentStep>,
}

/// A latent step of a branch.
#[derive(Debug, Clone, PartialEq)]
pub struct LatentStep {
    /// Its place among the tokens.
    pub at: usize,
    /// The hidden state that it read.
    pub input: Vec<f32>,
}

impl Branch {
    fn append(&mut self, node: &Node, is_taken: bool) {
        let n = node.ids.len();
        self.ids.extend_from_slice(&node.ids);
        self.sources.extend_from_slice(&node.sources);
        let end = self.ids.len();
        match &node.sampled {
            Some(sampled) => {
                let is_own = |source: &Source| !is_taken && *source == Source::Policy;
                self.sampled_mask.extend(node.sources.iter().map(is_own));
                let drawn = sampled.sampled_logprobs.as_ref().unwrap_or(&sampled.model_logprobs);
                self.model_logprobs.extend_from_slice(&sampled.model_logprobs);
                self.sampled_logprobs.extend_from_slice(drawn);
                self.policy_versions.resize(end, sampled.policy_version);
                self.temperatures.resize(end, sampled.temperature);
                self.turns.extend((!is_taken).then_some(end - n..end));
                self.is_truncated |= n > 0 && sampled.stop.is_truncated();
                self.latents.extend(latent_steps(node, &sampled.latents, end - n));
            }
            None => {
                self.sampled_mask.resize(end, false);
                self.model_logprobs.resize(end, 0.0);
                self.sampled_logprobs.resize(end, 0.0);
                self.policy_versions.resize(end, 0);
                self.temperatures.resize(end, 1.0);
            }
        }
    }
}

/// The latent steps of a node whose first token is at `start`, if they read hidden states.
fn latent_steps<'a>(
    node: &'a Node,
    inputs: &'a [f32],
    start: usize,
) -> impl Iterator<Item = LatentStep> + 'a {
    let is_latent = |(_, source): &(usize, &Source)| **source == Source::Latent;
    let steps = node.sources.iter().filter(|source| **source == Source::Latent).count();
    let width = inputs.len().checked_div(steps).unwrap_or(0).max(1);
    let places = node.sources.iter().enumerate().filter(is_latent);
    places
        .zip(inputs.chunks_exact(width))
        .map(move |((at, _), input)| LatentStep { at: start + at, input: input.to_vec() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn context(parent: Option<NodeId>, ids: &[u32]) -> Node {
        Node {
            parent,
            text: String::new(),
            ids: ids.to_vec(),
            sources: vec![Source::User; ids.len()],
            sampled: None,
        }
    }

    fn sampled(parent: Option<NodeId>, ids: &[u32], stop: StopReason) -> Node {
        Node {
            parent,
            text: String::new(),
            ids: ids.to_vec(),
            sources: vec![Source::Policy; ids.len()],
            sampled: Some(Sampled {
                model_logprobs: vec![-0.5; ids.len()],
                sampled_logprobs: None,
                policy_version: 3,
                temperature: 0.7,
                stop,
                latents: Vec::new(),
            }),
        }
    }

    #[test]
    fn a_conversation_that_only_grows_is_one_branch() {
        let mut trace = Trace::new();
        let a = trace.push(context(None, &[1, 2])).unwrap();
        let b = trace.push(sampled(Some(a), &[3], StopReason::EndToken)).unwrap();
        let c = trace.push(context(Some(b), &[4])).unwrap();
        trace.push(sampled(Some(c), &[5, 6], StopReason::TokensMax)).unwrap();
        let branches = trace.branches();
        assert_eq!(branches.len(), 1);
        assert_eq!(branches[0].ids, [1, 2, 3, 4, 5, 6]);
        assert_eq!(branches[0].sampled_mask, [false, false, true, false, true, true]);
        assert_eq!(branches[0].temperatures, [1.0, 1.0, 0.7, 1.0, 0.7, 0.7]);
        assert!(branches[0].is_truncated);
        assert_eq!(trace.head_ids(), [1, 2, 3, 4, 5, 6]);
        assert_eq!(trace.sampled_tokens(), 3);
    }

    #[test]
    fn a_fork_gives_two_branches_and_a_shared_sampled_node_is_trained_once() {
        let mut trace = Trace::new();
        let a = trace.push(context(None, &[1])).unwrap();
        let b = trace.push(sampled(Some(a), &[2], StopReason::EndToken)).unwrap();
        trace.push(sampled(Some(b), &[3], StopReason::EndToken)).unwrap();
        trace.push(sampled(Some(b), &[4], StopReason::EndToken)).unwrap();
        let branches = trace.branches();
        assert_eq!(branches.iter().map(|b| b.ids.clone()).collect::<Vec<_>>(), [[1, 2, 3], [1, 2, 4]]);
        assert_eq!(branches[0].sampled_mask, [false, true, true]);
        assert_eq!(branches[1].sampled_mask, [false, false, true]);
    }

    #[test]
    fn a_node_that_does_not_fit_is_refused() {
        let mut trace = Trace::new();
        assert_eq!(
            trace.push(context(Some(NodeId(0)), &[1])),
            Err(TraceError::UnknownParent { parent: 0, nodes: 0 })
        );
        let mut node = context(None, &[1]);
        node.sources[0] = Source::Policy;
        assert_eq!(trace.push(node), Err(TraceError::Provenance));
        let mut node = sampled(None, &[1, 2], StopReason::EndToken);
        node.sources[1] = Source::Hint;
        assert_eq!(trace.push(node), Err(TraceError::Provenance));
        for (stream, model, drawn, other) in [("model log-probs", 1, 2, 1), ("sampled log-probs", 2, 3, 3)] {
            let mut node = sampled(None, &[1, 2], StopReason::EndToken);
            let own = node.sampled.as_mut().unwrap();
            (own.model_logprobs, own.sampled_logprobs) = (vec![0.0; model], Some(vec![0.0; drawn]));
            assert_eq!(trace.push(node), Err(TraceError::Length { ids: 2, other, stream }));
        }
        assert!(trace.nodes().is_empty());
    }

    #[test]
    fn latent_steps_are_on_the_branch_with_what_they_read_and_are_not_sampled() {
        let mut trace = Trace::new();
        let a = trace.push(context(None, &[1, 2])).unwrap();
        let mut node = sampled(Some(a), &[5, 9, 9, 6], StopReason::EndToken);
        node.sources = vec![Source::Policy, Source::Latent, Source::Latent, Source::Patch];
        let own = node.sampled.as_mut().unwrap();
        own.latents = vec![0.5, 1.0, 1.5];
        assert_eq!(trace.push(node.clone()), Err(TraceError::Latents { numbers: 3, steps: 2 }));
        node.sampled.as_mut().unwrap().latents.push(2.0);
        let text = serde_json::to_string(&node).unwrap();
        assert_eq!(serde_json::from_str::<Node>(&text).unwrap(), node);
        trace.push(node).unwrap();
        let branch = trace.branches().remove(0);
        assert_eq!(branch.sampled_mask, [false, false, true, false, false, false]);
        let step = |at, input: [f32; 2]| LatentStep { at, input: input.to_vec() };
        assert_eq!(branch.latents, [step(3, [0.5, 1.0]), step(4, [1.5, 2.0])]);
        let mut node = context(None, &[1]);
        node.sources[0] = Source::Latent;
        assert_eq!(trace.push(node), Err(TraceError::Provenance));
    }

    #[test]
    fn a_branch_has_both_log_probs_and_the_models_stand_in_where_nothing_was_altered() {
        let mut trace = Trace::new();
        let a = trace.push(context(None, &[1])).unwrap();
        let b = trace.push(sampled(Some(a), &[2, 3], StopReason::EndToken)).unwrap();
        let c = trace.push(context(Some(b), &[4])).unwrap();
        let mut filtered = sampled(Some(c), &[5, 6], StopReason::EndToken);
        filtered.sampled.as_mut().unwrap().sampled_logprobs = Some(vec![-0.25, 0.0]);
        trace.push(filtered).unwrap();
        let branch = trace.branches().remove(0);
        assert_eq!(branch.model_logprobs, [0.0, -0.5, -0.5, 0.0, -0.5, -0.5]);
        assert_eq!(branch.sampled_logprobs, [0.0, -0.5, -0.5, 0.0, -0.25, 0.0]);
    }

    #[test]
    fn what_was_stored_before_there_were_two_log_probs_reads_as_the_models() {
        let old = r#"{"logprobs":[-0.5,-1.25],"policy_version":3,"temperature":0.5,"stop":"end_token"}"#;
        let mut record: Sampled = serde_json::from_str(old).unwrap();
        assert_eq!((&record.model_logprobs[..], &record.sampled_logprobs), (&[-0.5, -1.25][..], &None));
        // Without the second log-prob, the record is written as before.
        assert_eq!(serde_json::to_string(&record).unwrap(), old);
        record.sampled_logprobs = Some(vec![-0.25, 0.0]);
        let node = Node { sampled: Some(record), ..sampled(None, &[7, 8], StopReason::EndToken) };
        let mut trace = Trace::new();
        trace.push(node).unwrap();
        let text = serde_json::to_string(&trace).unwrap();
        assert_eq!(serde_json::from_str::<Trace>(&text).unwrap(), trace);
        assert!(text.contains(r#""sampled_logprobs":[-0.25,0.0]"#), "{text}");
    }
}
