//! Beginnings of prompts that were read before, as a tree of full pages that outlives the requests.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::pages::{Block, PAGE_ROWS, Page};

/// The tokens of a page.
type Ids = [u32; PAGE_ROWS];

/// Id of a node, in the order of creation.
type NodeId = u64;

/// A page whose keys and values follow from its own tokens and those of the pages above it.
#[derive(Debug)]
struct Node {
    parent: Option<NodeId>,
    ids: Ids,
    page: Arc<Page>,
    children: BTreeMap<Ids, NodeId>,
    /// When it was last used.
    used: u64,
}

/// Pages by their tokens and the page that they follow. Only pages written by a prefill are kept, so that the same
/// tokens always have the same keys and values, to the bit.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    nodes: BTreeMap<NodeId, Node>,
    roots: BTreeMap<Ids, NodeId>,
    /// Nodes without children, the least recently used first.
    leaves: BTreeSet<(u64, NodeId)>,
    clock: u64,
}

impl Tree {
    /// Its pages.
    #[cfg(test)]
    pub(crate) fn pages(&self) -> impl Iterator<Item = &Page> {
        self.nodes.values().map(|node| &*node.page)
    }

    /// Number of pages.
    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// The nodes that hold the beginning of `ids`, at most `pages_max`.
    fn path(&self, ids: &[u32], pages_max: usize) -> Vec<NodeId> {
        let mut path = Vec::new();
        let mut children = &self.roots;
        for page in ids.chunks_exact(PAGE_ROWS).take(pages_max) {
            let Some(&id) = children.get(page) else { break };
            path.push(id);
            children = &self.nodes[&id].children;
        }
        path
    }

    /// The pages that hold the beginning of `ids`, at most `pages_max`; does not count as a use.
    pub(crate) fn find(&self, ids: &[u32], pages_max: usize) -> Vec<&Arc<Page>> {
        self.path(ids, pages_max).into_iter().map(|id| &self.nodes[&id].page).collect()
    }

    /// The same pages, to continue from; marks them as used now.
    pub(crate) fn take(&mut self, ids: &[u32], pages_max: usize) -> Vec<Arc<Page>> {
        let path = self.path(ids, pages_max);
        path.into_iter().map(|id| self.touch(id)).collect()
    }

    /// Keeps the full pages of `block`, which holds `ids`. Where the tree already has such a page, the block uses that
    /// one.
    pub(crate) fn keep(&mut self, ids: &[u32], block: &mut Block) {
        let mut parent = self.path(ids, block.shared().len()).last().copied();
        block.share(|index, page| {
            let mut key = [0; PAGE_ROWS];
            key.copy_from_slice(&ids[index * PAGE_ROWS..][..PAGE_ROWS]);
            let siblings = parent.map_or(&self.roots, |parent| &self.nodes[&parent].children);
            let known = siblings.get(&key).copied();
            let id = known.unwrap_or_else(|| self.insert(parent, key, page));
            parent = Some(id);
            self.touch(id)
        });
    }

    fn insert(&mut self, parent: Option<NodeId>, ids: Ids, page: Arc<Page>) -> NodeId {
        let id = self.clock;
        self.clock += 1;
        match parent.and_then(|parent| Some((parent, self.nodes.get_mut(&parent)?))) {
            Some((parent, node)) => {
                self.leaves.remove(&(node.used, parent));
                node.children.insert(ids, id);
            }
            None => {
                self.roots.insert(ids, id);
            }
        }
        self.nodes.insert(id, Node { parent, ids, page, children: BTreeMap::new(), used: id });
        self.leaves.insert((id, id));
        id
    }

    /// Marks a node as used; returns its page.
    fn touch(&mut self, id: NodeId) -> Arc<Page> {
        self.clock += 1;
        let used = self.clock;
        if let Some(node) = self.nodes.get_mut(&id) {
            if self.leaves.remove(&(node.used, id)) {
                self.leaves.insert((used, id));
            }
            node.used = used;
        }
        Arc::clone(&self.nodes[&id].page)
    }

    /// Of the pages that nothing else holds and no other page follows, drops the least recently used. `false` if there
    /// is none.
    pub(crate) fn evict(&mut self) -> bool {
        let is_idle = |id: &NodeId| Arc::strong_count(&self.nodes[id].page) == 1;
        let Some(leaf) = self.leaves.iter().copied().find(|(_, id)| is_idle(id)) else { return false };
        self.leaves.remove(&leaf);
        let Some(Node { parent, ids, .. }) = self.nodes.remove(&leaf.1) else { return false };
        match parent.and_then(|parent| Some((parent, self.nodes.get_mut(&parent)?))) {
            Some((parent, node)) => {
                node.children.remove(&ids);
                if node.children.is_empty() {
                    self.leaves.insert((node.used, parent));
                }
            }
            None => {
                self.roots.remove(&ids);
            }
        }
        true
    }
}
