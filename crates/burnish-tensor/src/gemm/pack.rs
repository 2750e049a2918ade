//! Brings operands into the form from which tiles are computed.

use std::ops::Range;

use rayon::prelude::*;

use super::{
    View, Workers,
    kernel::{COLS, LINE},
};
use crate::{Buffer, Elements, Precision, vector::simd};

/// Number of units for which lanes are transposed at a time: their output then stays in the first-level cache.
const TURNED_UNITS: usize = 16;

/// Units of 32 bits that start at a cache line, so that no vector of a panel spans two lines.
#[derive(Debug, Default)]
pub(super) struct Units {
    buffer: Buffer,
    start: usize,
}

impl Units {
    /// At least `len` units with arbitrary content.
    pub(super) fn at_least(&mut self, len: usize) -> &mut [u32] {
        if self.buffer.len() < self.start + len {
            self.buffer = Buffer::scratch(len + LINE);
            self.start = self.buffer.as_ptr().align_offset(LINE * size_of::<u32>()).min(LINE);
        }
        let units = &mut self.buffer[self.start..][..len];
        // SAFETY: both types are 32 bits, and every pattern of bits is valid for both.
        unsafe { std::slice::from_raw_parts_mut(units.as_mut_ptr().cast(), len) }
    }

    pub(super) fn as_ptr(&self) -> *const u32 {
        self.buffer[self.start..].as_ptr().cast()
    }
}

/// Number of units that `inner` elements make: one per f32 element, one per pair of bf16.
pub(super) fn units_of(precision: Precision, inner: usize) -> usize {
    match precision {
        Precision::F32 => inner,
        Precision::Bf16 => inner.div_ceil(2),
    }
}

/// The right operand of products, `[inner, cols]`, packed once for several of them: panels of 64 columns.
#[derive(Debug)]
pub(crate) struct Panels {
    units: Units,
    inner: usize,
    cols: usize,
    precision: Precision,
}

/// The beginning of a packed operand.
#[derive(Clone, Copy)]
pub(crate) struct Packed<'a> {
    panels: &'a Panels,
    pub(super) inner: usize,
    pub(super) cols: usize,
}

impl Packed<'_> {
    pub(super) fn precision(self) -> Precision {
        self.panels.precision
    }

    /// The units of one panel, from the given element of the inner dimension on.
    pub(super) fn at(self, panel: usize, inner: usize) -> *const u32 {
        let Panels { units, precision, inner: inner_of_panels, .. } = self.panels;
        let per_panel = units_of(*precision, *inner_of_panels) * COLS;
        units.as_ptr().wrapping_add(panel * per_panel + units_of(*precision, inner) * COLS)
    }
}

impl Panels {
    /// Packs `rhs` for products in `precision`.
    pub(crate) fn of(precision: Precision, rhs: View<'_>, workers: Workers) -> Panels {
        let side = Side::right(rhs);
        let (inner, cols) = (rhs.rows, rhs.cols);
        let per_panel = units_of(precision, inner) * COLS;
        let mut units = Units::default();
        let panels = cols.div_ceil(COLS);
        let all = &mut units.at_least(panels * per_panel)[..panels * per_panel];
        let pack = |(panel, out): (usize, &mut [u32])| {
            let lanes = panel * COLS..cols.min((panel + 1) * COLS);
            side.pack(precision, COLS, lanes, 0..inner, out);
        };
        match workers {
            _ if per_panel == 0 => {}
            Workers::One => all.chunks_mut(per_panel).enumerate().for_each(pack),
            Workers::Pool => all.par_chunks_mut(per_panel).enumerate().for_each(pack),
        }
        Panels { units, inner, cols, precision }
    }

    /// The whole operand.
    pub(crate) fn all(&self) -> Packed<'_> {
        self.first(self.inner, self.cols)
    }

    /// The operand's first elements of the inner dimension, and first columns.
    pub(crate) fn first(&self, inner: usize, cols: usize) -> Packed<'_> {
        assert!(inner <= self.inner && cols <= self.cols, "a part of what was packed");
        // The second element of a pair would be multiplied by what is beyond the left operand.
        assert!(self.precision == Precision::F32 || inner == self.inner, "pairs are used whole");
        Packed { panels: self, inner, cols }
    }
}

/// One operand seen from the product: lanes (rows of the left one, columns of the right one) by inner elements.
#[derive(Clone, Copy)]
pub(super) struct Side<'a> {
    data: Elements<'a>,
    lane_stride: usize,
    inner_stride: usize,
}

impl<'a> Side<'a> {
    pub(super) fn left(view: View<'a>) -> Self {
        Side { data: view.data, lane_stride: view.row_stride, inner_stride: view.col_stride }
    }

    pub(super) fn right(view: View<'a>) -> Self {
        Side { data: view.data, lane_stride: view.col_stride, inner_stride: view.row_stride }
    }

    /// Packs some lanes and inner elements as `[units, width]`. Missing lanes and the missing second element of a last
    /// pair are zeros. `inner` starts at an even element.
    pub(super) fn pack(
        self,
        precision: Precision,
        width: usize,
        lanes: Range<usize>,
        inner: Range<usize>,
        out: &mut [u32],
    ) {
        debug_assert!(lanes.len() <= width && inner.start.is_multiple_of(2));
        let out = &mut out[..units_of(precision, inner.len()) * width];
        simd(
            #[inline(always)]
            || match (precision, self.data) {
                (Precision::F32, Elements::F32(data)) => {
                    self.pack_whole(data, width, lanes, inner, out, f32::to_bits)
                }
                (Precision::F32, Elements::Bf16(data)) => {
                    self.pack_whole(data, width, lanes, inner, out, |value| u32::from(value.to_bits()) << 16);
                }
                (Precision::Bf16, Elements::F32(data)) => {
                    self.pack_pairs(data, width, lanes, inner, out, round)
                }
                (Precision::Bf16, Elements::Bf16(data)) => {
                    self.pack_pairs(data, width, lanes, inner, out, |value| u32::from(value.to_bits()));
                }
            },
        );
    }

    #[inline(always)]
    fn pack_whole<T: Copy>(
        self,
        data: &[T],
        width: usize,
        lanes: Range<usize>,
        inner: Range<usize>,
        out: &mut [u32],
        bits: impl Fn(T) -> u32,
    ) {
        let len = lanes.len();
        if self.lane_stride == 1 {
            for (out, at) in out.chunks_exact_mut(width).zip(inner) {
                let from = &data[lanes.start + at * self.inner_stride..][..len];
                for (out, &from) in out.iter_mut().zip(from) {
                    *out = bits(from);
                }
                out[len..].fill(0);
            }
            return;
        }
        if len < width {
            out.fill(0);
        }
        for (out, first) in out.chunks_mut(TURNED_UNITS * width).zip(inner.step_by(TURNED_UNITS)) {
            for lane in 0..len {
                let at = (lanes.start + lane) * self.lane_stride + first * self.inner_stride;
                for (unit, out) in out.chunks_exact_mut(width).enumerate() {
                    out[lane] = bits(data[at + unit * self.inner_stride]);
                }
            }
        }
    }

    #[inline(always)]
    fn pack_pairs<T: Copy>(
        self,
        data: &[T],
        width: usize,
        lanes: Range<usize>,
        inner: Range<usize>,
        out: &mut [u32],
        bits: impl Fn(T) -> u32,
    ) {
        let len = lanes.len();
        if len < width {
            out.fill(0);
        }
        if self.lane_stride == 1 {
            for (out, at) in out.chunks_exact_mut(width).zip(inner.clone().step_by(2)) {
                let low = &data[lanes.start + at * self.inner_stride..][..len];
                if at + 1 < inner.end {
                    let high = &data[lanes.start + (at + 1) * self.inner_stride..][..len];
                    for ((out, &low), &high) in out.iter_mut().zip(low).zip(high) {
                        *out = bits(low) | bits(high) << 16;
                    }
                } else {
                    for (out, &low) in out.iter_mut().zip(low) {
                        *out = bits(low);
                    }
                }
            }
            return;
        }
        let whole = inner.len() / 2;
        for first in (0..whole).step_by(TURNED_UNITS) {
            let units = first..whole.min(first + TURNED_UNITS);
            let out = &mut out[first * width..units.end * width];
            for lane in 0..len {
                let at =
                    (lanes.start + lane) * self.lane_stride + (inner.start + 2 * first) * self.inner_stride;
                for (unit, out) in out.chunks_exact_mut(width).enumerate() {
                    let at = at + 2 * unit * self.inner_stride;
                    out[lane] = bits(data[at]) | bits(data[at + self.inner_stride]) << 16;
                }
            }
        }
        if inner.len() % 2 == 1 {
            for lane in 0..len {
                let at = (lanes.start + lane) * self.lane_stride + (inner.end - 1) * self.inner_stride;
                out[whole * width + lane] = bits(data[at]);
            }
        }
    }

    /// Packs some lanes and inner elements as panels, one after the other.
    pub(super) fn pack_panels(
        self,
        precision: Precision,
        lanes: Range<usize>,
        inner: Range<usize>,
        to: &mut Units,
    ) {
        let units = units_of(precision, inner.len());
        let per_panel = units * COLS;
        let out = to.at_least(lanes.len().div_ceil(COLS) * per_panel);
        // Some units of all panels at a time, so that contiguous rows are read from end to end.
        for first in (0..inner.len()).step_by(2 * TURNED_UNITS) {
            let part = inner.start + first..inner.end.min(inner.start + first + 2 * TURNED_UNITS);
            let at = units_of(precision, first) * COLS;
            for (lane, out) in lanes.clone().step_by(COLS).zip(out.chunks_exact_mut(per_panel)) {
                self.pack(precision, COLS, lane..lanes.end.min(lane + COLS), part.clone(), &mut out[at..]);
            }
        }
    }

    /// Packs some lanes and inner elements as rows of units: `[lanes, units]`. Inner elements are contiguous.
    pub(super) fn narrow(self, lanes: Range<usize>, inner: Range<usize>, out: &mut [u32]) {
        let units = inner.len().div_ceil(2);
        let rows = out[..lanes.len() * units].chunks_exact_mut(units).zip(lanes);
        simd(
            #[inline(always)]
            || {
                for (out, lane) in rows {
                    let range = lane * self.lane_stride + inner.start..lane * self.lane_stride + inner.end;
                    match self.data {
                        Elements::F32(data) => narrow_row(&data[range], out, round),
                        Elements::Bf16(data) => {
                            narrow_row(&data[range], out, |value| u32::from(value.to_bits()))
                        }
                    }
                }
            },
        );
    }
}

#[inline(always)]
fn narrow_row<T: Copy>(values: &[T], out: &mut [u32], bits: impl Fn(T) -> u32) {
    let (pairs, last) = values.as_chunks::<2>();
    for (out, &[low, high]) in out.iter_mut().zip(pairs) {
        *out = bits(low) | bits(high) << 16;
    }
    if let (Some(out), [last]) = (out.last_mut(), last) {
        *out = bits(*last);
    }
}

/// The bits of `value` rounded to bf16, to nearest even; NaN stays NaN.
#[inline(always)]
pub(super) fn round(value: f32) -> u32 {
    let bits = value.to_bits();
    let rounded = bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) >> 16;
    if value.is_nan() { 0x7fc0 } else { rounded }
}
