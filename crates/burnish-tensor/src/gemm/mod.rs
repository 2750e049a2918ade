//! Matrix products on slices, in f32 and in bf16.
//!
//! The right operand is packed into panels of 64 columns, either beforehand ([`Panels`], which several products share)
//! or panel by panel during the product. The left one is read in place if its rows are contiguous. A task is a block of
//! the output, whose tiles (`kernel.rs`) are computed one after the other.
//!
//! The inner dimension is cut into blocks of [`INNER`] elements whose sums are added in order. So an element of the
//! output depends only on its row and its column, in whatever product they occur and however many threads work.

mod kernel;
mod pack;
pub(crate) mod rows;

use std::cell::RefCell;
use std::ops::Range;

use rayon::prelude::*;

use crate::{Buffer, Elements, Precision};
use kernel::{COLS, Isa, LINE, Left, Panel, Place, ROWS};
pub(crate) use pack::{Packed, Panels};
use pack::{Side, Units, units_of};

/// Elements of the inner dimension that tiles sum over at once. A panel of them stays in the second-level cache.
const INNER: usize = 512;
/// The same if the left operand is transposed: its rows are then packed, so that more of them fit.
const TURNED_INNER: usize = 256;
/// Elements of the left operand that stay in the second-level cache.
const TASK_ELEMENTS: usize = TASK_ROWS * TURNED_INNER;
/// Most rows of them.
const TASK_ROWS: usize = 384;
/// Packed elements of the right operand that exist at once: 16 MiB in f32.
const PACKED_ELEMENTS: usize = 1 << 22;
/// Number of multiplications for which waking a second core pays off: they take some 10 µs.
const SHARED_STEPS: usize = 1 << 20;
/// From this number of rows on, tasks are blocks of rows. For fewer rows they are blocks of columns, so that each panel
/// is read by one core.
const MANY_ROWS: usize = 64;

/// A matrix to read: rows and columns at any strides within a slice.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    data: Elements<'a>,
    rows: usize,
    cols: usize,
    row_stride: usize,
    col_stride: usize,
}

impl<'a> View<'a> {
    /// A row-major matrix without gaps.
    pub(crate) fn new(data: impl Into<Elements<'a>>, rows: usize, cols: usize) -> Self {
        View::strided(data, rows, cols, cols)
    }

    /// A row-major matrix whose rows start `row_stride` elements apart.
    pub(crate) fn strided(
        data: impl Into<Elements<'a>>,
        rows: usize,
        cols: usize,
        row_stride: usize,
    ) -> Self {
        let data = data.into();
        assert!(
            rows == 0 || (rows - 1) * row_stride + cols <= data.len(),
            "matrix [{rows}, {cols}] with row stride {row_stride} does not fit {} elements",
            data.len()
        );
        View { data, rows, cols, row_stride, col_stride: 1 }
    }

    /// The transposed matrix, without moving an element.
    pub(crate) fn transposed(self) -> Self {
        View {
            data: self.data,
            rows: self.cols,
            cols: self.rows,
            row_stride: self.col_stride,
            col_stride: self.row_stride,
        }
    }

    /// A range of its columns.
    fn columns(self, cols: Range<usize>) -> Self {
        let end = self.data.len();
        let start = (cols.start * self.col_stride).min(end);
        View { data: self.data.slice(start..end), cols: cols.len(), ..self }
    }
}

/// A row-major matrix to write: rows start `row_stride` elements apart; the elements between rows are left alone.
pub(crate) struct ViewMut<'a> {
    data: &'a mut [f32],
    rows: usize,
    cols: usize,
    row_stride: usize,
}

impl<'a> ViewMut<'a> {
    /// A row-major matrix without gaps.
    pub(crate) fn new(data: &'a mut [f32], rows: usize, cols: usize) -> Self {
        ViewMut::strided(data, rows, cols, cols)
    }

    /// A row-major matrix whose rows start `row_stride` elements apart.
    pub(crate) fn strided(data: &'a mut [f32], rows: usize, cols: usize, row_stride: usize) -> Self {
        assert!(
            rows == 0 || (rows - 1) * row_stride + cols <= data.len(),
            "matrix [{rows}, {cols}] with row stride {row_stride} does not fit {} elements",
            data.len()
        );
        assert!(
            rows <= 1 || cols <= row_stride,
            "rows of {cols} elements overlap at row stride {row_stride}"
        );
        ViewMut { data, rows, cols, row_stride }
    }
}

/// What happens to the numbers that the output holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Write {
    /// They are replaced, whatever they were.
    Set,
    /// The product is added to them.
    Add,
}

/// The threads that work on an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workers {
    /// The calling thread: for products inside parallel tasks.
    One,
    /// The current rayon pool. Threads split the output and never a sum, so their number changes no bit.
    Pool,
}

/// `out = scale · lhs · rhs`, or adds that to `out`, in f32.
pub(crate) fn multiply(
    out: ViewMut<'_>,
    write: Write,
    scale: f32,
    lhs: View<'_>,
    rhs: View<'_>,
    workers: Workers,
) {
    multiply_in(Precision::F32, out, write, scale, lhs, rhs, workers);
}

/// [`multiply`] in `precision`.
pub(crate) fn multiply_in(
    precision: Precision,
    out: ViewMut<'_>,
    write: Write,
    scale: f32,
    lhs: View<'_>,
    rhs: View<'_>,
    workers: Workers,
) {
    check_shapes(&out, lhs, (rhs.rows, rhs.cols));
    // Contiguous rows are copied during the product; others have to be transposed, which is done once for all tasks.
    if rhs.col_stride == 1 {
        return Product { precision, write, scale, lhs, right: Right::View(rhs) }.run(out, workers);
    }
    let each = (PACKED_ELEMENTS / rhs.rows.max(1)).next_multiple_of(COLS);
    for cols in cut(rhs.cols, each) {
        let panels = Panels::of(precision, rhs.columns(cols.clone()), workers);
        let data = &mut out.data[cols.start..];
        let out = ViewMut { data, rows: out.rows, cols: cols.len(), row_stride: out.row_stride };
        Product { precision, write, scale, lhs, right: Right::Packed(panels.all()) }.run(out, workers);
    }
}

/// The row-major product `lhs · rhs` in a fresh buffer, in `precision`, by all threads.
pub(crate) fn product(precision: Precision, lhs: View<'_>, rhs: View<'_>) -> Buffer {
    let mut out = Buffer::scratch(lhs.rows * rhs.cols);
    multiply_in(
        precision,
        ViewMut::new(&mut out, lhs.rows, rhs.cols),
        Write::Set,
        1.0,
        lhs,
        rhs,
        Workers::Pool,
    );
    out
}

/// `out = scale · lhs · packed`, or adds that to `out`, in the precision of the panels.
pub(crate) fn multiply_packed(
    out: ViewMut<'_>,
    write: Write,
    scale: f32,
    lhs: View<'_>,
    packed: Packed<'_>,
    workers: Workers,
) {
    check_shapes(&out, lhs, (packed.inner, packed.cols));
    let precision = packed.precision();
    Product { precision, write, scale, lhs, right: Right::Packed(packed) }.run(out, workers);
}

fn check_shapes(out: &ViewMut<'_>, lhs: View<'_>, (inner, cols): (usize, usize)) {
    assert!(
        out.rows == lhs.rows && out.cols == cols && lhs.cols == inner,
        "[{}, {}] is not the shape of a product of [{}, {}] and [{inner}, {cols}]",
        out.rows,
        out.cols,
        lhs.rows,
        lhs.cols,
    );
}

#[derive(Clone, Copy)]
enum Right<'a> {
    View(View<'a>),
    Packed(Packed<'a>),
}

/// A product whose shapes have been checked.
#[derive(Clone, Copy)]
struct Product<'a> {
    precision: Precision,
    write: Write,
    scale: f32,
    lhs: View<'a>,
    right: Right<'a>,
}

/// An output of which tasks write disjoint parts.
#[derive(Clone, Copy)]
struct Out {
    data: *mut f32,
    row_stride: usize,
}

// SAFETY: the pointer comes from an exclusive borrow that outlives all tasks, which write disjoint elements.
unsafe impl Send for Out {}
// SAFETY: as above.
unsafe impl Sync for Out {}

thread_local! {
    /// Packed rows and a packed panel, reused from product to product.
    static SCRATCH: RefCell<(Units, Units)> = RefCell::default();
}

impl Product<'_> {
    fn run(self, out: ViewMut<'_>, workers: Workers) {
        let (rows, cols, inner) = (out.rows, out.cols, self.lhs.cols);
        if rows == 0 || cols == 0 {
            return;
        }
        if inner == 0 {
            if self.write == Write::Set {
                out.data.chunks_mut(out.row_stride).take(rows).for_each(|row| row[..cols].fill(0.0));
            }
            return;
        }
        let block = Block {
            product: self,
            isa: Isa::of_machine(self.precision),
            out: Out { data: out.data.as_mut_ptr(), row_stride: out.row_stride },
            rows: 0..rows,
            panels: 0..cols.div_ceil(COLS),
        };
        let threads = rayon::current_num_threads();
        let steps = rows * cols * inner;
        if workers == Workers::One || threads == 1 || steps < SHARED_STEPS {
            return block.run();
        }
        block.split(threads).into_par_iter().for_each(|block| block.run());
    }
}

/// A part of the output.
#[derive(Clone)]
struct Block<'a> {
    product: Product<'a>,
    isa: Isa,
    out: Out,
    rows: Range<usize>,
    panels: Range<usize>,
}

impl Block<'_> {
    /// Elements of the inner dimension that are summed at once.
    fn inner(&self) -> usize {
        if self.product.lhs.col_stride == 1 { INNER } else { TURNED_INNER }
    }

    /// Number of rows whose part of the left operand stays in the second-level cache while panels pass by.
    fn cached_rows(&self) -> usize {
        let elements = self.product.lhs.cols.min(self.inner());
        (TASK_ELEMENTS / elements).clamp(ROWS, TASK_ROWS).next_multiple_of(ROWS)
    }

    /// Splits the block into tasks for some threads. Each task packs what it needs of operands that are not packed yet,
    /// so there are few tasks, and the cut is made where less is packed twice.
    fn split(self, threads: usize) -> Vec<Self> {
        let (rows, panels) = (self.rows.len(), self.panels.len());
        let is_turned = self.product.lhs.col_stride != 1;
        let of_rows = if is_turned { rows > panels * COLS } else { rows >= MANY_ROWS };
        if of_rows {
            let each = match self.product.right {
                Right::Packed(_) => self.cached_rows(),
                Right::View(_) if is_turned => rows,
                Right::View(_) => rows.div_ceil(2 * threads),
            };
            let each = each.min(rows.div_ceil(threads)).next_multiple_of(ROWS);
            cut(rows, each).map(|rows| Block { rows, ..self.clone() }).collect()
        } else {
            let each = panels.div_ceil(if is_turned { threads } else { 4 * threads });
            cut(panels, each).map(|panels| Block { panels, ..self.clone() }).collect()
        }
    }

    fn run(self) {
        let Product { lhs, right, write, .. } = self.product;
        let later = |index| if index == 0 { write } else { Write::Add };
        SCRATCH.with_borrow_mut(|(left, panels)| match right {
            Right::Packed(packed) => {
                for rows in cut_range(&self.rows, self.cached_rows()) {
                    for (index, inner) in cut(lhs.cols, self.inner()).enumerate() {
                        let panel = |panel| packed.at(panel, inner.start);
                        self.rows(rows.clone(), inner.clone(), later(index), left, panel);
                    }
                }
            }
            Right::View(rhs) => {
                let lanes = self.panels.start * COLS..rhs.cols.min(self.panels.end * COLS);
                for (index, inner) in cut(lhs.cols, self.inner()).enumerate() {
                    Side::right(rhs).pack_panels(
                        self.product.precision,
                        lanes.clone(),
                        inner.clone(),
                        panels,
                    );
                    let per_panel = units_of(self.product.precision, inner.len()) * COLS;
                    let packed = panels.as_ptr();
                    let panel = |panel: usize| packed.wrapping_add((panel - self.panels.start) * per_panel);
                    for rows in cut_range(&self.rows, self.cached_rows()) {
                        self.rows(rows, inner.clone(), later(index), left, panel);
                    }
                }
            }
        });
    }

    /// Computes some rows of the block, summed over a part of the inner dimension. `panel` returns the address of a
    /// panel's part.
    fn rows(
        &self,
        rows: Range<usize>,
        inner: Range<usize>,
        write: Write,
        scratch: &mut Units,
        panel: impl Fn(usize) -> *const u32,
    ) {
        let Product { precision, lhs, scale, .. } = self.product;
        let units = units_of(precision, inner.len());
        let side = Side::left(lhs);
        let left = match (precision, lhs.data) {
            (Precision::F32, Elements::F32(data)) if lhs.col_stride == 1 => {
                let data = data[rows.start * lhs.row_stride + inner.start..].as_ptr();
                Left::Rows(data.cast(), lhs.row_stride)
            }
            (Precision::F32, Elements::F32(data)) if lhs.row_stride == 1 => {
                let data = data[inner.start * lhs.col_stride + rows.start..].as_ptr();
                Left::Turned(data.cast(), lhs.col_stride)
            }
            (Precision::Bf16, _) if lhs.col_stride == 1 => {
                side.narrow(rows.clone(), inner, scratch.at_least(rows.len() * units));
                Left::Rows(scratch.as_ptr(), units)
            }
            _ => {
                let width = rows.len().next_multiple_of(16);
                side.pack(precision, width, rows.clone(), inner, scratch.at_least(units * width));
                Left::Turned(scratch.as_ptr(), width)
            }
        };
        let cols_end = match self.product.right {
            Right::View(rhs) => rhs.cols,
            Right::Packed(packed) => packed.cols,
        };
        for index in self.panels.clone() {
            let col = index * COLS;
            for row in rows.clone().step_by(ROWS) {
                let at = row - rows.start;
                let left = match left {
                    Left::Rows(data, stride) => Left::Rows(data.wrapping_add(at * stride), stride),
                    Left::Turned(data, stride) => Left::Turned(data.wrapping_add(at), stride),
                };
                // SAFETY: the instructions were found on this machine. Left: a `View` is only made with strides whose
                // last element is inside its slice (checked in `View::strided`; `transposed` keeps the set of
                // elements), or the rows were packed above. Right: panels hold all units. Output: the bounds of
                // `ViewMut` were checked, its shape is that of the product, and blocks do not overlap.
                unsafe {
                    let data = self.out.data.add(row * self.out.row_stride + col);
                    let row_stride = self.out.row_stride;
                    let place = Place { data, row_stride, cols: COLS.min(cols_end - col), write, scale };
                    let len = ROWS.min(rows.end - row);
                    // Each of the first tiles prefetches its part of the next panel.
                    let soon = panel(index + 1).wrapping_add(at / ROWS * units * LINE);
                    let panel = Panel { data: panel(index), soon };
                    kernel::tile(self.isa, precision, len, units, left, panel, place);
                }
            }
        }
    }
}

/// `0..len` in ranges of `each`.
fn cut(len: usize, each: usize) -> impl Iterator<Item = Range<usize>> + use<> {
    cut_range(&(0..len), each)
}

/// A range in ranges of `each`.
fn cut_range(range: &Range<usize>, each: usize) -> impl Iterator<Item = Range<usize>> + use<> {
    let (each, end) = (each.max(1), range.end);
    range.clone().step_by(each).map(move |start| start..end.min(start + each))
}

#[cfg(test)]
mod tests;
