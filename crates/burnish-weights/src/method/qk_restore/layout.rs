//! Which rows of a projection are queries, keys and values of which head.

use crate::WeightsError;
use crate::checkpoint::View;
use crate::method::Site;

/// What a tensor projects to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Projection {
    Query,
    Key,
    Value,
    Fused,
}

/// Which of a projection's tensors it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Weight,
    Bias,
    /// The gain of a norm of queries or keys.
    Norm,
}

/// What rows are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// Queries of this head; of all heads where heads are no matter.
    Query(usize),
    /// Keys of this group of heads.
    Key(usize),
    /// Values of this group of heads.
    Value(usize),
    /// Something else, such as an output gate.
    Other,
}

/// Consecutive rows of one role.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Block {
    pub(super) rows: usize,
    pub(super) role: Role,
}

/// The rows of a tensor.
#[derive(Debug)]
pub(super) struct Layout {
    pub(super) blocks: Vec<Block>,
    projection: Projection,
    heads: Option<Heads>,
}

/// How attention is divided.
#[derive(Debug, Clone, Copy)]
struct Heads {
    /// Heads of queries.
    queries: usize,
    /// Heads of keys and values.
    keys: usize,
    /// Dimensions of a head.
    size: usize,
}

/// Names of projections, as architectures have them.
const NAMES: [(&str, Projection); 15] = [
    ("q_proj", Projection::Query),
    ("wq", Projection::Query),
    ("query", Projection::Query),
    ("q_norm", Projection::Query),
    ("k_proj", Projection::Key),
    ("wk", Projection::Key),
    ("key", Projection::Key),
    ("k_norm", Projection::Key),
    ("v_proj", Projection::Value),
    ("wv", Projection::Value),
    ("value", Projection::Value),
    ("qkv_proj", Projection::Fused),
    ("query_key_value", Projection::Fused),
    ("wqkv", Projection::Fused),
    ("Wqkv", Projection::Fused),
];

/// What the tensor of this name projects to, if it is a projection of attention.
pub(super) fn named(name: &str) -> Option<(Projection, Kind)> {
    let (module, kind) = name.rsplit_once('.')?;
    let module = module.rsplit('.').next()?;
    let (_, projection) = NAMES.iter().find(|(known, _)| *known == module)?;
    let kind = match kind {
        _ if module.ends_with("_norm") => Kind::Norm,
        "weight" => Kind::Weight,
        "bias" => Kind::Bias,
        _ => return None,
    };
    Some((*projection, kind))
}

impl Layout {
    pub(super) fn of(site: &Site<'_>, projection: Projection, kind: Kind) -> Result<Self, WeightsError> {
        let rows = site.shape.first().copied().unwrap_or(1);
        let heads = heads(site);
        let whole = |role| vec![Block { rows, role }];
        let blocks = match (projection, kind) {
            (Projection::Query, Kind::Norm) => whole(Role::Query(0)),
            (Projection::Key, Kind::Norm) => whole(Role::Key(0)),
            (Projection::Query, _) => query_blocks(rows, heads),
            (Projection::Key, _) => whole(Role::Key(0)),
            (Projection::Value, _) => whole(Role::Value(0)),
            (Projection::Fused, _) => fused_blocks(site, rows, heads)?,
        };
        Ok(Layout { blocks, projection, heads })
    }

    /// Where the keys are that the queries of `head`, which has `rows`, meet in input `pre`: the tensor and the first of
    /// its rows.
    pub(super) fn key_of<'a>(
        &self,
        site: &Site<'a>,
        head: usize,
        rows: usize,
        pre: usize,
    ) -> Result<(View<'a>, usize), WeightsError> {
        let Some(Heads { queries, keys, size }) = self.heads else { return Err(unknown_heads(site)) };
        let heads = self.blocks.iter().filter(|block| matches!(block.role, Role::Query(_))).count();
        if rows != size || heads != queries {
            let problem = format!(
                "has shape {:?}, but config.json of the base has {queries} heads of queries with {size} dimensions each",
                site.shape
            );
            return Err(site.tensors[pre].error(problem));
        }
        let group = head * keys / queries.max(1);
        if self.projection == Projection::Fused {
            let mut row = 0;
            for block in &self.blocks {
                if block.role == Role::Key(group) {
                    return Ok((site.tensors[pre], row));
                }
                row += block.rows;
            }
        }
        let name =
            ["q_proj", "wq", "query"].into_iter().zip(["k_proj", "wk", "key"]).find_map(|(query, key)| {
                let (before, after) = site.name.rsplit_once(&format!(".{query}."))?;
                Some(format!("{before}.{key}.{after}"))
            });
        let source = &site.job.sources[pre];
        let key = name.as_deref().and_then(|name| source.get(name)).ok_or_else(|| {
            site.tensors[pre].error("has no matrix of keys beside it, which `mode: pro` needs".to_owned())
        })?;
        if key.shape.first() != Some(&(keys * size)) || key.shape.get(1) != site.shape.get(1) {
            let problem = format!(
                "has shape {:?}, but config.json has {keys} heads of keys with {size} dimensions each",
                key.shape
            );
            return Err(key.error(problem));
        }
        Ok((key, group * size))
    }
}

/// Queries head by head; where they are twice as many rows as heads need, each head's are followed by its output gate,
/// as in Qwen3-Next. Without config.json they are all of one head.
fn query_blocks(rows: usize, heads: Option<Heads>) -> Vec<Block> {
    match heads {
        Some(Heads { queries, size, .. }) if rows == queries * size => {
            (0..queries).map(|head| Block { rows: size, role: Role::Query(head) }).collect()
        }
        Some(Heads { queries, size, .. }) if rows == 2 * queries * size => (0..queries)
            .flat_map(|head| [Role::Query(head), Role::Other].map(|role| Block { rows: size, role }))
            .collect(),
        _ => vec![Block { rows, role: Role::Query(0) }],
    }
}

fn fused_blocks(site: &Site<'_>, rows: usize, heads: Option<Heads>) -> Result<Vec<Block>, WeightsError> {
    let Some(Heads { queries, keys, size }) = heads else { return Err(unknown_heads(site)) };
    if rows != (queries + 2 * keys) * size || queries % keys != 0 {
        let problem = format!(
            "has {rows} rows, but config.json has {queries} heads of queries and {keys} of keys with {size} dimensions \
             each; the layout of this architecture is not known"
        );
        return Err(site.tensors[0].error(problem));
    }
    let asked = site.text("fused")?;
    // In GPT-NeoX, Falcon and InternLM2 the rows of a group of heads are together; elsewhere all queries come first.
    let is_grouped = match asked.as_str() {
        "" => ["query_key_value", "wqkv"].iter().any(|name| site.name.contains(&format!(".{name}."))),
        asked => asked == "groups",
    };
    let block = |role| Block { rows: size, role };
    let per_group = queries / keys;
    Ok(if is_grouped {
        let group = |group: usize| {
            let queries = (group * per_group..(group + 1) * per_group).map(Role::Query);
            queries.chain([Role::Key(group), Role::Value(group)]).map(block)
        };
        (0..keys).flat_map(group).collect()
    } else {
        let all = (0..queries).map(Role::Query);
        all.chain((0..keys).map(Role::Key)).chain((0..keys).map(Role::Value)).map(block).collect()
    })
}

fn heads(site: &Site<'_>) -> Option<Heads> {
    let source = &site.job.sources[site.job.base?];
    // No model has more, and products of two fit.
    const MOST: u64 = 1 << 20;
    let count = |key: &str| {
        let count = source.setting(key)?.as_u64().filter(|count| (1..=MOST).contains(count))?;
        usize::try_from(count).ok()
    };
    let queries = count("num_attention_heads")?;
    let keys = count("num_key_value_heads").unwrap_or(queries);
    let size = count("head_dim").or_else(|| Some(count("hidden_size")? / queries))?;
    Some(Heads { queries, keys, size })
}

fn unknown_heads(site: &Site<'_>) -> WeightsError {
    let problem = "can't be divided into heads: config.json of the base has no `num_attention_heads` with `head_dim` or \
                   `hidden_size`";
    site.tensors[0].error(problem.to_owned())
}
