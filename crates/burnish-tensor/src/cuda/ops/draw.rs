//! Draws ids from rows of logits.

use std::sync::Arc;

use crate::{
    Draw, Drawn, NoDraw, Vocab,
    cuda::{
        Argument, Buffer, CudaError, int,
        launch_shape::LaunchShape,
        modules::Program::{self, Scores},
        values::Values,
    },
};

/// Threads in a block; the kernels use the same number.
const THREADS: usize = 512;
/// Blocks that share a row: `PARTS` of draw.cu.
const PARTS: usize = 16;
/// Numbers that they tell: `Both` of draw.cu.
const TOLD: usize = 2 * (PARTS + PARTS * PARTS);
/// Words that say what one draw asks for: `Asked` of draw.cu.
const WORDS: usize = 16;
/// Words of one result.
const RESULT: usize = 4;
/// The most ids that a row may have, and the most likeliest ones that are reported: `ID_BITS` and `BINS` of draw.cu.
const IDS_MAX: usize = 1 << 20;
const LIKELIEST_MAX: usize = 2048;

/// What a call uploads, in one piece: [`WORDS`] of each draw, the excluded ids, then what the draws alter. Floats are their
/// bits.
struct Upload {
    words: Vec<i32>,
    /// Draws that alter logits.
    altered: usize,
    /// Words of the results with their details.
    out: usize,
}

impl Upload {
    fn new(vocab: &Vocab, asked: &[Draw<'_>]) -> Self {
        let mut words = vec![0; WORDS * asked.len()];
        words.extend(vocab.excluded().iter().map(|&id| id as i32));
        let mut upload = Upload { words, altered: 0, out: RESULT * asked.len() };
        for (at, draw) in asked.iter().enumerate() {
            let own = upload.add(vocab, draw);
            upload.words[WORDS * at..][..WORDS].copy_from_slice(&own);
        }
        upload
    }

    /// Appends what a draw alters; returns its words.
    fn add(&mut self, vocab: &Vocab, draw: &Draw<'_>) -> [i32; WORDS] {
        let exists = |(id, _): &&(u32, f32)| (*id as usize) < vocab.len();
        let pairs = self.words.len();
        let mut append = |list: &[(u32, f32)]| {
            let before = self.words.len();
            let known = list.iter().filter(exists);
            self.words.extend(known.flat_map(|&(id, by)| [id as i32, by.to_bits() as i32]));
            ((self.words.len() - before) / 2) as i32
        };
        let (added, penalised) = (append(&draw.added), append(&draw.penalties));
        let allowed = draw.allowed.map(|bits| {
            let (start, len) = (self.words.len(), vocab.len().div_ceil(32));
            self.words.extend(bits.iter().take(len).map(|&word| word as i32));
            self.words.resize(start + len, 0);
            start as i32
        });
        let alters = draw.forced.is_none() && self.words.len() > pairs;
        let altered = alters.then_some(self.altered as i32);
        self.altered += usize::from(alters);
        let details = self.out;
        self.out += 2 * draw.likeliest.unwrap_or(0);
        let float = |x: f32| x.to_bits() as i32;
        let uniform = draw.uniform.to_bits();
        [
            draw.row as i32,
            altered.unwrap_or(-1),
            uniform as i32,
            (uniform >> 32) as i32,
            float(draw.temperature),
            float(draw.top_p),
            float(draw.min_p),
            float(draw.repetition),
            draw.top_k.min(vocab.len()) as i32,
            // An id beyond the vocabulary is none of it.
            draw.forced.map_or(-1, |id| id.min(IDS_MAX as u32) as i32),
            draw.likeliest.map_or(-1, |n| n as i32),
            pairs as i32,
            added,
            penalised,
            allowed.unwrap_or(-1),
            details as i32,
        ]
    }
}

/// As [`crate::draw`]; the logits are not needed afterwards.
pub(crate) fn draw(
    mut logits: Values,
    vocab: &Vocab,
    asked: &[Draw<'_>],
) -> Result<Vec<Result<Drawn, NoDraw>>, CudaError> {
    let cuda = &Arc::clone(logits.cuda());
    let v = vocab.len();
    assert!(v <= IDS_MAX, "{v} ids");
    assert!(asked.iter().all(|draw| draw.likeliest <= Some(LIKELIEST_MAX)), "so many of the likeliest ids");
    let rows = logits.len() / v.max(1);
    let Upload { words, altered, out } = Upload::new(vocab, asked);
    let words = Buffer::upload(cuda, &words);
    let excluded = vocab.excluded().len();
    if excluded > 0 {
        let ids = words.slice(WORDS * asked.len()..WORDS * asked.len() + excluded);
        let arguments = &mut [logits.wide_mut().into(), ids.into(), int(excluded), int(v)];
        cuda.launch(Scores, "exclude", LaunchShape::rows(rows, excluded), arguments);
    }
    let mut altered = Buffer::<f32>::uninit(cuda, altered * v);
    let mut told = Buffer::<u64>::uninit(cuda, TOLD * asked.len());
    let mut out = Buffer::<i32>::uninit(cuda, out);
    let launch = |name, parts, arguments: &mut [Argument]| {
        cuda.launch(Program::Draw, name, LaunchShape::blocks(asked.len(), parts, THREADS), arguments);
    };
    let (logits, words) = (logits.wide(), words.all());
    let arguments =
        &mut [told.all_mut().into(), altered.all_mut().into(), logits.into(), words.into(), int(v)];
    launch("draw_best", PARTS, arguments);
    let arguments = &mut [told.all_mut().into(), altered.all().into(), logits.into(), words.into(), int(v)];
    launch("draw_weigh", PARTS, arguments);
    let arguments = &mut [
        out.all_mut().into(),
        told.all().into(),
        altered.all().into(),
        logits.into(),
        words.into(),
        int(v),
    ];
    launch("draw", 1, arguments);
    let out = out.download()?;
    let (results, mut details) = out.split_at(RESULT * asked.len());
    let drawn = |(result, draw): (&[i32], &Draw<'_>)| {
        let own = details.split_off(..2 * draw.likeliest.unwrap_or(0)).unwrap_or_default();
        let float = |bits: i32| f32::from_bits(bits as u32);
        Ok(Drawn {
            id: match result[0] {
                -1 => return Err(NoDraw::NotFinite),
                -2 => return Err(NoDraw::NothingAllowed),
                id => id as u32,
            },
            model_logprob: float(result[1]),
            sampled_logprob: float(result[2]),
            rank: if draw.likeliest.is_some() { result[3] as usize } else { 0 },
            top: own
                .chunks_exact(2)
                .filter(|pair| pair[0] >= 0)
                .map(|pair| (pair[0] as u32, float(pair[1])))
                .collect(),
        })
    };
    Ok(results.chunks_exact(RESULT).zip(asked).map(drawn).collect())
}

#[cfg(test)]
mod tests;
