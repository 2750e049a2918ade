//! Which rows of a packed batch see each other.

use std::ops::Range;

/// How the rows of one segment see each other. Together with the segments that they continue, this makes every mask in
/// use: a bidirectional root is an encoder's, a causal child of one is that of a prefix language model, and a chain of
/// bidirectional segments is causal by blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Visibility {
    /// A row sees itself and the rows before it.
    #[default]
    Causal,
    /// A row sees all of them.
    Bidirectional,
}

/// Rows `start..start + len` of a packed batch: a run of tokens whose prefix is its parent's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// First row.
    pub start: usize,
    /// Number of rows.
    pub len: usize,
    /// Index of the segment that this one continues, if any; always an earlier one.
    pub parent: Option<usize>,
    /// How its own rows see each other.
    pub visibility: Visibility,
}

impl Segment {
    /// A segment whose rows see themselves and the rows before them.
    #[must_use]
    pub fn causal(start: usize, len: usize, parent: Option<usize>) -> Self {
        Segment { start, len, parent, visibility: Visibility::Causal }
    }

    /// Do its rows see only themselves and the rows before them?
    #[must_use]
    pub fn is_causal(&self) -> bool {
        self.visibility == Visibility::Causal
    }

    /// Its rows in the batch.
    #[must_use]
    pub fn rows(&self) -> Range<usize> {
        self.start..self.start + self.len
    }
}

/// A forest of segments: row `i` of a segment sees all rows of the segment's ancestors, and of its own rows `0..=i` or
/// all, as its [`Visibility`] says. Sequences without shared prefixes are a forest of roots ([`Layout::causal`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    segments: Vec<Segment>,
    islands: Vec<Range<usize>>,
}

/// Segments that do not tile a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    /// There is a gap or an overlap.
    #[error(
        "segment {segment} starts at row {start}, but the segments before it end at row {end}; list segments in row order without gaps"
    )]
    NotContiguous {
        /// Index of the segment.
        segment: usize,
        /// Its first row.
        start: usize,
        /// The end of the segments before it.
        end: usize,
    },
    /// A parent is not an earlier segment.
    #[error(
        "segment {segment} has parent {parent}, which is not an earlier segment; list a prefix before what continues it"
    )]
    ParentNotEarlier {
        /// Index of the segment.
        segment: usize,
        /// Index of its parent.
        parent: usize,
    },
}

impl Layout {
    /// Checks that the segments are in row order without gaps, parents first.
    ///
    /// # Errors
    /// [`LayoutError`] names the first segment that violates this.
    pub fn new(segments: Vec<Segment>) -> Result<Layout, LayoutError> {
        let mut end = 0;
        for (index, segment) in segments.iter().enumerate() {
            if segment.start != end {
                return Err(LayoutError::NotContiguous { segment: index, start: segment.start, end });
            }
            if let Some(parent) = segment.parent.filter(|&parent| parent >= index) {
                return Err(LayoutError::ParentNotEarlier { segment: index, parent });
            }
            end += segment.len;
        }
        let islands = islands(&segments);
        Ok(Layout { segments, islands })
    }

    /// A layout of independent sequences of these lengths.
    #[must_use]
    pub fn causal(lens: &[usize]) -> Layout {
        Layout::roots(lens, Visibility::Causal)
    }

    /// A layout of independent sequences of these lengths, in each of which every row sees every row.
    #[must_use]
    pub fn bidirectional(lens: &[usize]) -> Layout {
        Layout::roots(lens, Visibility::Bidirectional)
    }

    /// A layout of independent sequences of these lengths.
    #[must_use]
    pub fn roots(lens: &[usize], visibility: Visibility) -> Layout {
        let mut start = 0;
        let segments: Vec<Segment> = lens
            .iter()
            .map(|&len| {
                let segment = Segment { start, len, parent: None, visibility };
                start += len;
                segment
            })
            .collect();
        let islands = islands(&segments);
        Layout { segments, islands }
    }

    /// Rows of the batch.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.segments.last().map_or(0, |segment| segment.start + segment.len)
    }

    /// The segments, in row order.
    #[must_use]
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// Do all rows see only themselves and rows before them? A recurrence needs that.
    #[must_use]
    pub fn is_causal(&self) -> bool {
        self.segments.iter().all(Segment::is_causal)
    }

    /// The smallest ranges of segments that share no ancestor with segments outside, so that they can be worked on
    /// separately.
    pub(crate) fn islands(&self) -> &[Range<usize>] {
        &self.islands
    }

    /// Do the rows of `segment` see all rows of `earlier`, which is another segment?
    pub(crate) fn is_ancestor(&self, earlier: usize, segment: usize) -> bool {
        let mut next = self.segments[segment].parent;
        while let Some(index) = next.filter(|&index| index > earlier) {
            next = self.segments[index].parent;
        }
        next == Some(earlier)
    }

    /// The row ranges that the rows of `segment` see in full: its ancestors, root first.
    pub(crate) fn ancestors(&self, segment: usize) -> Vec<Range<usize>> {
        let mut ranges = Vec::new();
        let mut next = self.segments[segment].parent;
        while let Some(index) = next {
            ranges.push(self.segments[index].rows());
            next = self.segments[index].parent;
        }
        ranges.reverse();
        ranges
    }
}

/// Cuts before every segment for which neither it nor any later one has a parent before it.
fn islands(segments: &[Segment]) -> Vec<Range<usize>> {
    let mut islands = Vec::new();
    let mut end = segments.len();
    let mut earliest_parent = usize::MAX;
    for index in (0..segments.len()).rev() {
        earliest_parent = earliest_parent.min(segments[index].parent.unwrap_or(index));
        if earliest_parent >= index {
            islands.push(index..end);
            end = index;
        }
    }
    islands.reverse();
    islands
}

#[cfg(test)]
mod tests {
    use super::*;

    fn forest(parents: &[Option<usize>]) -> Vec<Segment> {
        parents.iter().enumerate().map(|(index, &parent)| Segment::causal(2 * index, 2, parent)).collect()
    }

    #[test]
    fn gaps_and_later_parents_are_refused() {
        let mut gap = forest(&[None, None]);
        gap[1].start = 3;
        assert_eq!(Layout::new(gap), Err(LayoutError::NotContiguous { segment: 1, start: 3, end: 2 }));
        let own_parent = forest(&[None, Some(1)]);
        assert_eq!(Layout::new(own_parent), Err(LayoutError::ParentNotEarlier { segment: 1, parent: 1 }));
    }

    #[test]
    fn ancestors_are_listed_root_first() {
        let layout = Layout::new(forest(&[None, Some(0), None, Some(1)])).unwrap();
        assert_eq!(layout.ancestors(3), vec![0..2, 2..4]);
        assert_eq!(layout.ancestors(2), vec![]);
        let ancestors =
            |segment| (0..4).filter(|&earlier| layout.is_ancestor(earlier, segment)).collect::<Vec<_>>();
        assert_eq!([0, 1, 2, 3].map(ancestors), [vec![], vec![0], vec![], vec![0, 1]]);
        assert_eq!(layout.rows(), 8);
    }

    #[test]
    fn islands_are_the_smallest_ranges_closed_under_ancestry() {
        let islands = |parents: &[Option<usize>]| Layout::new(forest(parents)).unwrap().islands().to_vec();
        assert_eq!(islands(&[]), vec![]);
        assert_eq!(islands(&[None, Some(0), Some(0), None, None, Some(4)]), vec![0..3, 3..4, 4..6]);
        // Interleaved trees cannot be cut apart.
        assert_eq!(islands(&[None, None, Some(0), Some(1), None]), vec![0..4, 4..5]);
        assert_eq!(Layout::causal(&[3, 1]).islands(), [0..1, 1..2]);
    }
}
