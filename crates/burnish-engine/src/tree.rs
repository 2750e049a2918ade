//! Beginnings of prompts that were read before, as a tree of full pages. It outlives the requests that read them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::pages::{Block, PAGE_ROWS, Page};

/// The tokens of a page.
type Ids = [u32; PAGE_ROWS];

/// Which node, in the order in which they were made.
type NodeId = u64;

/// A page whose keys and values follow from its tokens and those of the pages above it.
#[derive(Debug)]
struct Node {
    parent: Option<NodeId>,
    ids: Ids,
    page: Arc<Page>,
    children: BTreeMap<Ids, NodeId>,
    /// When it was last asked for.
    used: u64,
}

/// Pages by the tokens that they hold and follow. Only what a prefill wrote comes in: the same tokens always have the same
/// keys and values, to the bit.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    nodes: BTreeMap<NodeId, Node>,
    roots: BTreeMap<Ids, NodeId>,
    /// Nodes without children, the one that was not asked for longest first.
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

    /// The pages that hold the beginning of `ids`, at most `pages_max`, as they are now.
    pub(crate) fn find(&self, ids: &[u32], pages_max: usize) -> Vec<&Arc<Page>> {
        self.path(ids, pages_max).into_iter().map(|id| &self.nodes[&id].page).collect()
    }

    /// The same, to go on from: they were asked for now.
    pub(crate) fn take(&mut self, ids: &[u32], pages_max: usize) -> Vec<Arc<Page>> {
        let path = self.path(ids, pages_max);
        path.into_iter().map(|id| self.touch(id)).collect()
    }

    /// Keeps the full pages of `block`, which holds `ids`. Where the tree has such pages already, the block goes on with
    /// those.
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

    /// Notes that a node was asked for; gives its page.
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

    /// Drops the page that was not asked for longest, of those that nobody else holds and none follows. `false` if there is
    /// none.
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
